import { conflict, missingReferences, validationFailed } from '../../errors.ts';
import { customFieldsLimits } from '../../schemas/wire.ts';
import type { Contact } from '../../schemas/contacts.ts';
import { customKey } from '../../schemas/filters.ts';
import { fold } from '../../text/fold.ts';
import { maxMovedRecords, type Merge } from '../../schemas/clean-data.ts';
import { escapePointer } from '../../text/json.ts';
import type { PlaceInOpportunity } from './links.ts';

type Row = Readonly<Record<string, unknown>>;

type Choices<R> = ReadonlyMap<string, R>;

const combinedFields = new Set(['custom_fields', 'other_emails', 'phone_numbers']);

export const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);

/**
 * Returns the fields of the merged record. The value of a chosen record wins, otherwise the first value that is not
 * empty. The first record is the one that stays.
 */
export function mergedFields<R extends object>(
  records: readonly [R, ...R[]],
  names: readonly (keyof R & string)[],
  choices: Choices<R>,
): R {
  const [kept] = records;
  const values = names.map((name) => {
    const chosen = choices.get(name);
    if (chosen) return [name, chosen[name]];
    if (combinedFields.has(name)) return [name, kept[name]];
    return [name, (records.find((record) => !isEmpty(record[name])) ?? kept)[name]];
  });
  return { ...kept, ...Object.fromEntries(values) } as R;
}

type CustomFields = Contact['custom_fields'];

/**
 * Returns the custom fields of the merged record. For each key, the value of a chosen record wins, otherwise that of
 * the first record that has one.
 * @throws DomainError `conflict` if the fields exceed the limits of one record
 */
export function mergedCustomFields<R extends { custom_fields: CustomFields }>(
  records: readonly R[],
  choices: Choices<R>,
): CustomFields {
  const fields: CustomFields = {};
  const whole = choices.get('custom_fields');
  for (const [key, value] of (whole ? [whole] : records).flatMap(({ custom_fields }) => Object.entries(custom_fields)))
    if (!Object.hasOwn(fields, key) || (isEmpty(fields[key]) && !isEmpty(value))) define(fields, key, value);
  for (const [name, { custom_fields }] of choices) {
    const key = customKey(name);
    if (key === undefined) continue;
    if (Object.hasOwn(custom_fields, key)) define(fields, key, custom_fields[key]!);
    else delete fields[key];
  }
  const { keys, bytes } = customFieldsLimits;
  if (Object.keys(fields).length > keys || Buffer.byteLength(JSON.stringify(fields)) > bytes)
    throw tooMany('custom_fields', `${keys} custom fields or ${bytes} bytes of them`);
  return fields;
}

/** Sets a key of custom fields. The key may be `__proto__`, so plain assignment is wrong. */
const define = (fields: CustomFields, key: string, value: CustomFields[string]): void =>
  void Object.defineProperty(fields, key, { value, enumerable: true, configurable: true, writable: true });

const tooMany = (field: string, what: string) =>
  conflict(`The merged record would have more than ${what}: choose a record for ${field} in \`fields\``, [
    { path: '/fields', message: `must choose a record for ${field}` },
  ]);

const maxEntries = 20;

type Emails = Pick<Contact, 'work_email' | 'personal_email' | 'other_emails'>;

export function unitedEmails(shown: Emails, records: readonly Emails[]): Contact['other_emails'] {
  const emails = [...(shown.other_emails ?? [])];
  const known = new Set([shown.work_email, shown.personal_email ?? '', '', ...emails].map(fold));
  for (const { work_email, personal_email, other_emails } of records)
    for (const email of [work_email, personal_email ?? '', ...(other_emails ?? [])]) {
      if (known.has(fold(email))) continue;
      known.add(fold(email));
      emails.push(email);
    }
  if (emails.length > maxEntries) throw tooMany('other_emails', `${maxEntries} other e-mail addresses`);
  return emails.length === 0 ? shown.other_emails : emails;
}

type Phones = Pick<Contact, 'phone_numbers' | 'mobile_phone'>;

/**
 * Returns the phone numbers of a merged contact: those of all records, and the mobile phones of the other records. Adds
 * no number that the contact has, also not as its mobile phone.
 * @throws DomainError `conflict` if there are too many
 */
export function unitedPhones(shown: Phones, records: readonly Phones[]): Contact['phone_numbers'] {
  const phones = [...shown.phone_numbers];
  const known = new Set([...phones, { country_code: '', number: shown.mobile_phone ?? '' }].map(digitsOf));
  for (const { phone_numbers, mobile_phone } of records) {
    const mobiles = isEmpty(mobile_phone) ? [] : [{ country_code: '', number: mobile_phone! }];
    for (const phone of [...phone_numbers, ...mobiles]) {
      if (known.has(digitsOf(phone))) continue;
      known.add(digitsOf(phone));
      phones.push(phone);
    }
  }
  if (phones.length > maxEntries) throw tooMany('phone_numbers', `${maxEntries} phone numbers`);
  return phones;
}

function digitsOf({ country_code, number }: Contact['phone_numbers'][number]): string {
  const text = `${country_code}${number}`;
  return text.replaceAll(/\D/g, '') || text;
}

interface Verified {
  verification_status: string;
  last_verified: string | null;
}

export function mergedVerification<V extends Verified>(records: readonly V[]): Pick<V, keyof Verified> {
  const verified = records.find(({ verification_status }) => verification_status !== 'unverified');
  const { verification_status, last_verified } = verified ?? { verification_status: 'unverified', last_verified: null };
  return { verification_status, last_verified };
}

export const verificationOf = <V extends Verified & { work_email: string }>(email: string, records: readonly V[]) =>
  mergedVerification(records.filter(({ work_email }) => fold(work_email) === fold(email)));

export const firstOf = <R extends Row, K extends keyof R>(records: readonly R[], name: K): R[K] | null =>
  records.find((record) => !isEmpty(record[name]))?.[name] ?? null;

/**
 * What a merge has moved from a merged record to the record that stays. The journal keeps it, so that the merge can be
 * undone.
 */
export interface Moved {
  lists?: string[];
  opportunities?: string[];
  places?: PlaceInOpportunity[];
  contacts?: string[];
  merged?: string[];
}

export type ComparedMerge = Merge & { compared?: readonly Version[] };

interface Version {
  id: string;
  updated_at: string;
}

export const idsOf = ({ id, merge_ids }: Merge): string[] => [id, ...merge_ids];

export function requireDistinct({ id, merge_ids, fields = {} }: Merge): void {
  const given = new Set([id, ...merge_ids]);
  const faults = [
    ...merge_ids.flatMap((one, i) =>
      one === id ? [{ path: `/merge_ids/${i}`, message: 'is the record that stays' }] : [],
    ),
    ...Object.entries(fields).flatMap(([name, one]) =>
      given.has(one)
        ? []
        : [{ path: `/fields/${escapePointer(name)}`, message: 'must be one of the records of this merge' }],
    ),
  ];
  if (faults.length > 0) throw validationFailed(faults);
}

/**
 * Returns the records in the order of the request.
 * @throws DomainError `not_found` if one does not exist; `conflict` if one has changed since it was compared
 */
export function inOrder<R extends Version>(noun: string, merge: ComparedMerge, found: readonly R[]): [R, ...R[]] {
  const byId = new Map(found.map((record) => [record.id, record]));
  const missing = idsOf(merge).flatMap((id, i) => (byId.has(id) ? [] : [i === 0 ? '/id' : `/merge_ids/${i - 1}`]));
  if (missing.length > 0) throw missingReferences(missing.map((path) => ({ noun, path })));
  if (merge.compared?.some(({ id, updated_at }) => byId.get(id)?.updated_at !== updated_at))
    throw conflict('The records have changed since they were compared');
  return idsOf(merge).map((id) => byId.get(id)!) as [R, ...R[]];
}

export const choicesOf = <R extends { id: string }>({ fields = {} }: Merge, records: readonly R[]): Choices<R> =>
  new Map(Object.entries(fields).map(([name, id]) => [name, records.find((record) => record.id === id)!]));

export function requireFew(noun: string, counted: Record<string, number>): void {
  for (const [moved, count] of Object.entries(counted))
    if (count > maxMovedRecords)
      throw conflict(`More than ${maxMovedRecords} ${moved} would move: keep the ${noun} that has the most of them`, [
        { path: '/merge_ids', message: `have more than ${maxMovedRecords} ${moved}` },
      ]);
}
