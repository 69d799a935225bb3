import {
  customFields,
  matchesRules,
  plainFold,
  type PlainContact,
  type PlainRule,
} from '../queries/memberships/recount.ts';

/*
 * A plain model of the records of one caller, in memory. It is written from the API's description and shares no code
 * with the service. Records refer to each other by object, so that no id is needed for a record that an import made.
 */

export type Json = Record<string, unknown>;

interface Recorded {
  /** Undefined until the caller has read the id of the record. */
  id: string | undefined;
  /** The latest operations on the record. */
  history: string[];
}

export interface Company extends Recorded {
  fields: Json;
  /** All callers of the customer use the company, by its name. Nobody renames or deletes it. */
  isShared: boolean;
}

export interface List extends Recorded {
  name: string;
  description: string;
  rules: PlainRule[];
}

export interface Contact extends Recorded {
  fields: Json;
  company: Company | null;
  /** The lists to which the contact was added by hand. */
  lists: ReadonlySet<List>;
}

/** What becomes of an item that a caller sends, as in the results of a batch. */
export type Outcome<T> =
  { status: 'created' | 'updated' | 'unchanged' | 'deleted'; record: T } | { status: 'failed'; code: string };

export type Match = 'id' | 'external_id' | 'work_email';

/** How items are written: as in the batch or import with this mode. */
export interface Mode {
  operation: 'create' | 'update' | 'upsert';
  match: Match | null;
}

export const same = (a: string | undefined, b: unknown): boolean =>
  a !== undefined && a.toLowerCase() === String(b).toLowerCase();

const failed = (code: string) => ({ status: 'failed', code }) as const;

/** Whether the item is one that callers spoil: with an e-mail address that is none. */
export const isInvalid = ({ work_email: email }: Json): boolean => typeof email === 'string' && !email.includes('@');

const blankContact: Json = {
  external_id: null,
  middle_name: null,
  gender: null,
  birth_year: null,
  profnet_url: null,
  social1_url: null,
  social2_url: null,
  personal_email: null,
  other_emails: null,
  industry: '',
  job_title: '',
  location_locality: '',
  location_country: '',
  location_region: '',
  location_postal_code: null,
  phone_numbers: [],
  mobile_phone: null,
  custom_fields: {},
  assigned_to: null,
};

const blankCompany: Json = {
  external_id: null,
  type: '',
  size: '',
  industry: '',
  social2_url: null,
  profnet_url: null,
  social1_url: null,
  location_locality: null,
  location_metro: null,
  location_region: null,
  location_street_address: null,
  location_address_line_2: null,
  location_postal_code: null,
  location_country: '',
  custom_fields: {},
};

const trimmed = new Set(['name', 'first_name', 'last_name', 'company_name']);
const upper = new Set(['location_country', 'currency']);

/** Returns the fields of a record after a write. Members that are not given do not change. */
export function patched(fields: Json, { custom_fields: custom, ...given }: Json): Json {
  const entries = Object.entries(given).map(([name, value]) => {
    if (typeof value !== 'string') return [name, value];
    if (trimmed.has(name)) return [name, value.trim()];
    if (upper.has(name)) return [name, value.toUpperCase()];
    return [name, name === 'assigned_to' ? value.toLowerCase() : value];
  });
  const merged = Object.entries({ ...(fields['custom_fields'] as Json), ...(custom as Json) });
  const kept = Object.fromEntries(merged.filter(([, value]) => value !== null));
  return { ...fields, ...Object.fromEntries(entries), ...('custom_fields' in fields ? { custom_fields: kept } : {}) };
}

/** Returns a text for the comparison of fields, whatever the order of their keys. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    one !== null && typeof one === 'object' && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );

/** The companies that all callers of a customer use by their names, by folded name. */
export type SharedCompanies = Map<string, Company>;

/** Prefix of the names of companies that all callers of a customer use. */
export const sharedPrefix = 'ours ';

/** The industry that is given with the name of a shared company: always the same, whoever is the first. */
export const sharedIndustry = (name: string): string => `industry of ${plainFold(name)}`;

/** The records of one caller. */
export class Model {
  readonly contacts = new Set<Contact>();
  readonly companies = new Set<Company>();
  readonly lists = new Set<List>();
  readonly #shared: SharedCompanies;
  /** The external ids of merged records, in the order of the merges, with the records that replace them. */
  merged: { externalId: string; record: Contact | Company }[] = [];
  #undo: (() => void)[] = [];

  constructor(shared: SharedCompanies) {
    this.#shared = shared;
  }

  /** Applies writes of which either all or none happen. */
  atomically<T>(isKept: (result: T) => boolean, write: () => T): T {
    this.#undo = [];
    const result = write();
    if (!isKept(result)) for (const undo of this.#undo.toReversed()) undo();
    return result;
  }

  #set<T extends object>(record: T, changes: Partial<T>): void {
    const before = Object.fromEntries(Object.keys(changes).map((name) => [name, record[name as keyof T]]));
    Object.assign(record, changes);
    this.#undo.push(() => Object.assign(record, before));
  }

  #add<T>(records: Set<T>, record: T): T {
    records.add(record);
    this.#undo.push(() => records.delete(record));
    return record;
  }

  contactsBy(match: Match, value: unknown): Contact[] {
    const all = [...this.contacts];
    if (match === 'id') return all.filter(({ id }) => same(id, value));
    if (match === 'external_id') return this.#byExternalId(this.contacts, value);
    const wanted = String(value).toLowerCase();
    return all.filter(({ fields }) => String(fields['work_email']).toLowerCase() === wanted);
  }

  /** Creates or changes a contact. */
  writeContact({ operation, match }: Mode, item: Json): Outcome<Contact> {
    if (isInvalid(item)) return failed('validation_failed');
    const [stored, ...others] = match === null ? [] : this.contactsBy(match, item[match]);
    if (others.length > 0) return failed('conflict');
    if (!stored && operation === 'update') return failed('not_found');
    const lacks = ['first_name', 'last_name', 'work_email'].some((name) => typeof item[name] !== 'string');
    if (!stored && lacks) return failed('validation_failed');
    const { id: _id, company: given, list_ids: listIds, ...values } = item;
    if (stored && match) delete values[match];
    const fields = patched(stored?.fields ?? blankContact, values);
    const company = this.#companyOf(given as Json | null | undefined, stored?.company ?? null);
    if (company === undefined) return failed('not_found');
    if (this.#isTaken(this.contacts, fields, stored)) return failed('conflict');
    const lists = listIds === undefined ? (stored?.lists ?? new Set<List>()) : this.#listsOf(listIds as string[]);
    if (lists === undefined) return failed('not_found');
    const next = { fields, company: typeof company === 'function' ? company() : company, lists };
    if (!stored) {
      const record = this.#add(this.contacts, { id: undefined, history: [], ...next });
      return { status: 'created', record };
    }
    const isSame =
      canonical(fields) === canonical(stored.fields) &&
      next.company === stored.company &&
      lists.symmetricDifference(stored.lists).size === 0;
    this.#set(stored, next);
    return { status: isSame ? 'unchanged' : 'updated', record: stored };
  }

  #isTaken<T extends { fields: Json }>(records: ReadonlySet<T>, { external_id: wanted }: Json, own?: T): boolean {
    if (wanted === null) return false;
    return [...records].some((record) => record !== own && record.fields['external_id'] === wanted);
  }

  /**
   * Returns the company that an item refers to, or a function that creates it; undefined if there is no such company.
   */
  #companyOf(given: Json | null | undefined, current: Company | null): Company | null | (() => Company) | undefined {
    if (given === undefined) return current;
    const { id, name, industry = '' } = given ?? {};
    if (id !== undefined) return [...this.companies].find((company) => same(company.id, id));
    if (name === undefined) return null;
    return this.#companyNamed(name as string) ?? (() => this.#addCompany(name as string, industry as string));
  }

  /** Returns the oldest company with a name. */
  #companyNamed(name: string): Company | undefined {
    const folded = plainFold(name);
    if (folded.startsWith(sharedPrefix)) return this.#shared.get(folded);
    const found = [...this.companies].filter(({ fields }) => plainFold(fields['company_name']) === folded);
    // Ids are known but of companies that the running import created, which are the newest.
    return found.toSorted((a, b) => ((a.id ?? '~') < (b.id ?? '~') ? -1 : 1))[0];
  }

  #addCompany(name: string, industry: string): Company {
    const folded = plainFold(name);
    const isShared = folded.startsWith(sharedPrefix);
    const fields = patched(blankCompany, { company_name: name, industry });
    const company: Company = { id: undefined, history: [], fields, isShared };
    if (!isShared) return this.#add(this.companies, company);
    this.#shared.set(folded, company);
    this.#undo.push(() => this.#shared.delete(folded));
    return company;
  }

  #listsOf(ids: readonly string[]): Set<List> | undefined {
    const found = ids.map((wanted) => [...this.lists].find(({ id }) => same(id, wanted)));
    return found.includes(undefined) ? undefined : new Set(found as List[]);
  }

  /** Adds contacts to lists by hand, as an import with `list_ids` does. */
  addToLists(contacts: Iterable<Contact>, lists: Iterable<List>): void {
    for (const contact of contacts) this.#set(contact, { lists: contact.lists.union(new Set(lists)) });
  }

  removeFromList(contacts: Iterable<Contact>, list: List): void {
    for (const contact of contacts) this.#set(contact, { lists: contact.lists.difference(new Set([list])) });
  }

  deleteContact(contact: Contact): Outcome<Contact> {
    this.contacts.delete(contact);
    this.#undo.push(() => this.contacts.add(contact));
    return { status: 'deleted', record: contact };
  }

  companiesBy(match: Match, value: unknown): Company[] {
    if (match === 'external_id') return this.#byExternalId(this.companies, value);
    return [...this.companies].filter(({ id }) => same(id, value));
  }

  /** Returns the record with an external id, or that into which a record with it was merged. */
  #byExternalId<T extends Contact | Company>(records: ReadonlySet<T>, value: unknown): T[] {
    const own = [...records].filter(({ fields }) => fields['external_id'] === value);
    if (own.length > 0) return own;
    const merged = this.merged.findLast(({ externalId, record }) => externalId === value && records.has(record as T));
    return merged ? [merged.record as T] : [];
  }

  /** Remembers the external ids that merged records had, and the one that the kept record loses by the merge. */
  #rememberMerge(kept: Contact | Company, merged: readonly (Contact | Company)[], after: Json): void {
    for (const entry of this.merged) if (merged.includes(entry.record)) entry.record = kept;
    const lost = kept.fields['external_id'] === after['external_id'] ? [] : [kept];
    for (const { fields } of [...merged, ...lost])
      if (typeof fields['external_id'] === 'string')
        this.merged.push({ externalId: fields['external_id'], record: kept });
  }

  /** Merges contacts into one, which takes the values of `chosen` by field name. */
  mergeContacts(kept: Contact, merged: Contact[], chosen: ReadonlyMap<string, Contact>): Outcome<Contact> {
    const all = [kept, ...merged];
    const fields = mergedFields(all, chosen);
    if (!chosen.has('other_emails')) fields['other_emails'] = unitedEmails(fields, all);
    if (!chosen.has('phone_numbers')) fields['phone_numbers'] = unitedPhones(fields, all);
    const lists = [fields['other_emails'], fields['phone_numbers']] as (unknown[] | null)[];
    if (lists.some((list) => (list ?? []).length > 20)) return failed('conflict');
    const company = (chosen.get('company') ?? all.find((one) => one.company !== null) ?? kept).company;
    this.#rememberMerge(kept, merged, fields);
    const hand = all.reduce((union, one) => union.union(one.lists), new Set<List>());
    for (const one of merged) this.contacts.delete(one);
    Object.assign(kept, { fields, company, lists: hand });
    return { status: 'updated', record: kept };
  }

  /** Merges companies into one. It gets their contacts. */
  mergeCompanies(kept: Company, merged: Company[], chosen: ReadonlyMap<string, Company>): Outcome<Company> {
    const fields = mergedFields([kept, ...merged], chosen);
    this.#rememberMerge(kept, merged, fields);
    for (const one of this.contacts) if (one.company && merged.includes(one.company)) one.company = kept;
    for (const one of merged) this.companies.delete(one);
    Object.assign(kept, { fields });
    return { status: 'updated', record: kept };
  }

  /** Creates or changes a company. */
  writeCompany({ operation, match }: Mode, item: Json): Outcome<Company> {
    const [stored] = match === null ? [] : this.companiesBy(match, item[match]);
    if (!stored && operation === 'update') return failed('not_found');
    if (!stored && ['type', 'company_name'].some((name) => typeof item[name] !== 'string'))
      return failed('validation_failed');
    const { id: _id, ...values } = item;
    // The external id of a merged company finds the one that stayed, which keeps its own.
    if (stored && match) delete values[match];
    const fields = patched(stored?.fields ?? blankCompany, values);
    if (this.#isTaken(this.companies, fields, stored)) return failed('conflict');
    if (!stored) {
      const record = this.#add(this.companies, { id: undefined, history: [], fields, isShared: false });
      return { status: 'created', record };
    }
    const isSame = canonical(fields) === canonical(stored.fields);
    this.#set(stored, { fields });
    return { status: isSame ? 'unchanged' : 'updated', record: stored };
  }

  /** Deletes a company. Its contacts stay. */
  deleteCompany(company: Company): Outcome<Company> {
    this.companies.delete(company);
    this.#undo.push(() => this.companies.add(company));
    for (const one of this.contacts) if (one.company === company) this.#set(one, { company: null });
    return { status: 'deleted', record: company };
  }

  deleteList(list: List): void {
    this.lists.delete(list);
    this.removeFromList(
      [...this.contacts].filter(({ lists }) => lists.has(list)),
      list,
    );
  }
}

const isEmpty = (value: unknown): boolean => value === null || value === '' || value === undefined;

/** Fields that a merge unites. */
const united = new Set(['custom_fields', 'other_emails', 'phone_numbers']);

/** Returns the fields of a merged record. The first record is the one that stays. */
function mergedFields<T extends { fields: Json }>(records: readonly T[], chosen: ReadonlyMap<string, T>): Json {
  const [kept] = records;
  const entries = Object.entries(kept!.fields).map(([name, own]) => {
    if (chosen.has(name)) return [name, chosen.get(name)!.fields[name]];
    if (united.has(name)) return [name, own];
    return [name, records.map(({ fields }) => fields[name]).find((value) => !isEmpty(value)) ?? own];
  });
  const fields: Json = Object.fromEntries(entries);
  if (chosen.has('custom_fields')) return fields;
  const custom: Json = {};
  for (const record of records)
    for (const [key, value] of Object.entries(record.fields['custom_fields'] as Json))
      if (!(key in custom) || (isEmpty(custom[key]) && !isEmpty(value))) custom[key] = value;
  return { ...fields, custom_fields: custom };
}

/** Returns the other addresses of a merged contact: its own, then all that it does not show elsewhere. */
function unitedEmails(shown: Json, records: readonly Contact[]): unknown {
  const own = (shown['other_emails'] ?? []) as string[];
  const seen = new Set(
    [shown['work_email'], shown['personal_email'] ?? '', ...own].map((one) => String(one).toLowerCase()),
  );
  const more: string[] = [];
  for (const { fields } of records)
    for (const email of [
      fields['work_email'],
      fields['personal_email'],
      ...((fields['other_emails'] ?? []) as string[]),
    ])
      if (!isEmpty(email) && !seen.has(String(email).toLowerCase())) {
        seen.add(String(email).toLowerCase());
        more.push(String(email));
      }
  return more.length === 0 ? shown['other_emails'] : [...own, ...more];
}

type Phone = { country_code: string; number: string };

/** Returns the numbers of a merged contact: its own, and those of the others, of which none is its mobile phone. */
function unitedPhones(shown: Json, records: readonly Contact[]): Phone[] {
  const digits = ({ country_code, number }: Phone) =>
    (country_code + number).replaceAll(/\D/g, '') || country_code + number;
  const mobileOf = (fields: Json): Phone[] =>
    isEmpty(fields['mobile_phone']) ? [] : [{ country_code: '', number: String(fields['mobile_phone']) }];
  const phones = [...(shown['phone_numbers'] as Phone[])];
  for (const { fields } of records)
    for (const phone of [...(fields['phone_numbers'] as Phone[]), ...mobileOf(fields)])
      if (![...phones, ...mobileOf(shown)].some((one) => digits(one) === digits(phone))) phones.push(phone);
  return phones;
}

/** Returns a contact as the evaluation of rules needs it. */
export function plainContact({ id, fields, company }: Contact): PlainContact {
  return {
    id: id!,
    fields: {
      ...fields,
      ...customFields(fields['custom_fields'] as Json),
      company_id: company?.id ?? null,
      'company.company_name': company?.fields['company_name'] ?? '',
      'company.industry': company?.fields['industry'] ?? '',
    },
  };
}

/** Whether a contact is in a list: by hand, or because it matches the rules. */
export const isMember = (contact: Contact, list: List): boolean =>
  contact.lists.has(list) || (list.rules.length > 0 && matchesRules(plainContact(contact), list.rules));
