import type { Transaction, Database, Locked, LockedId } from '../../database/db.ts';
import { missingReferences, type DomainError, notFound, validationFailed } from '../../errors.ts';
import { lockLists, removeFromAllLists, setManualLists } from './list-members.ts';
import { lockReferences } from '../records/references.ts';
import { requireMatch } from '../../text/ids.ts';
import { contactSource, fromOf } from '../../filters/columns.ts';
import { isLive, liveLists, constant, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import { searchColumnsOfContact, arrayLiteral } from '../../filters/to-sql.ts';
import { completeRules, rulesFilter } from '../../filters/rules.ts';
import { parseRecordQuery } from '../../filters/parse.ts';
import { blankOf } from '../../schemas/wire.ts';
import { Contact, contactFields, listNames } from '../../schemas/contacts.ts';
import type { CompanyReference, ContactCreate, ContactDetail, ContactPatch } from '../../schemas/contacts.ts';
import { contactFileFields } from '../../schemas/files.ts';
import type { RuleGiven } from '../../schemas/lists.ts';
import { fold, normalise } from '../../text/fold.ts';
import { profileKey } from '../../text/domains.ts';
import { type WrittenTable, companyTable, findByExternalIds } from '../records/batch-rows.ts';
import { lockCompanyForContact, findOrCreateCompany, namedCompanyOf } from './companies.ts';
import { findByIds, inOrderOf, type CreateRecord, type FindRecords, type UpdateRecord } from '../records/finders.ts';
import { withDeferredWrites, type DeferredWrites, type Removal } from '../records/deferred-writes.ts';
import { findDeclared, mergeCustomFields, type Declared } from '../records/custom-fields.ts';
import { detachActivities, lastActivityAt, removeFromOpportunities } from './links.ts';
import { countRecords, recordReads } from './record-pages.ts';

interface Referring {
  list_ids?: readonly string[];
  assigned_to?: string | null;
}

/**
 * Locks the lists and users to which bodies of contacts refer. Call it before the contacts are written, so that unknown
 * ids are reported before other errors.
 * @returns for each body, the error `not_found` with the JSON pointers of its unknown ids, or undefined
 */
export async function findUnknownReferences(
  sql: Transaction,
  customerId: string,
  bodies: readonly Referring[],
): Promise<(DomainError | undefined)[]> {
  const userIds = new Set(bodies.flatMap(({ assigned_to }) => assigned_to ?? []));
  const users = [...userIds].map((id) => ({ noun: 'user' as const, id, path: '/assigned_to' }));
  const [lists, unknownUsers] = await Promise.all([
    lockLists(sql, customerId, [...new Set(bodies.flatMap(({ list_ids = [] }) => list_ids))]),
    lockReferences(sql, customerId, users),
  ]);
  const knownLists = new Set(lists.map(({ id }) => id));
  const unknown = new Map(unknownUsers.map((user) => [user.id, user]));
  return bodies.map(({ list_ids = [], assigned_to }) => {
    const missing = [
      ...list_ids.flatMap((id, i) => (knownLists.has(id) ? [] : [{ noun: 'list', path: `/list_ids/${i}` }])),
      ...(unknown.has(assigned_to ?? '') ? [unknown.get(assigned_to!)!] : []),
    ];
    return missing.length > 0 ? missingReferences(missing) : undefined;
  });
}

export type ContactColumns = Pick<Contact, (typeof contactFields)[number]> & { company_id: string | null };

export const blank: ContactColumns = { ...blankOf(Contact, contactFields), company_id: null };

export const serviceColumns = [
  'prospect_id',
  'score',
  'verification_status',
  'last_verified',
  'crm_synced_at',
  'removal_requested_at',
] as const;

/** SQL columns of a contact as responses show them. Without a verification, `last_verified` is the creation time. */
const shown = `
  c.id,
  ${contactFields.map((column) => `c.${column}`).join(', ')},
  json_build_object('id', co.id, 'company_name', coalesce(co.company_name, ''), 'industry', coalesce(co.industry, '')) as company,
  c.score,
  c.verification_status,
  coalesce(c.last_verified, c.created_at) as last_verified,
  c.crm_synced_at,
  c.removal_requested_at,
  c.created_at,
  c.updated_at`;
const projection = (sql: FragmentMaker) => constant(sql, shown);

const manualLists = (sql: FragmentMaker, customerId: string, column: 'id' | 'name'): Fragment => sql`
  select l.${constant(sql, column)}
  from ${liveLists(sql, customerId)}
    and l.id = any(array(
      select m.list_id
      from list_members m
      where m.customer_id = ${customerId}
        and m.contact_id = c.id
    ))`;

export const {
  list: listContacts,
  count: countContacts,
  countUpTo: countContactsUpTo,
  export: exportContacts,
} = recordReads<Contact>({
  source: contactSource,
  projection,
  forPeople: (sql, customerId) =>
    sql`${projection(sql)}, array(${manualLists(sql, customerId, 'name')} order by l.name) as ${constant(sql, listNames)}`,
  fields: contactFileFields,
  title: 'Contacts',
});

export function countRuleMatches(
  db: Database,
  customerId: string,
  rules: readonly RuleGiven[],
  max: number,
): Promise<number> {
  const filter = rulesFilter(contactSource.fields, completeRules(rules));
  return countRecords(db, { ...parseRecordQuery(contactSource, customerId, {}), filter }, max);
}

export const findContacts: FindRecords<ContactDetail> = (sql, customerId, ids) =>
  findByIds(
    sql,
    ids,
    sql`
      select
        ${projection(sql)},
        array(${manualLists(sql, customerId, 'id')} order by l.id) as list_ids,
        ${lastActivityAt(sql, customerId, 'contact', 'c.id')} as last_activity_at
      from ${fromOf(sql, contactSource, customerId)}
      where c.customer_id = ${customerId}
        and c.id = wanted.id`,
  );

export const createContact: CreateRecord<ContactCreate> = (sql, customerId, body) =>
  withDeferredWrites(sql, customerId, async (deferred) => {
    const { company, list_ids } = body;
    deferred.count('contacts', 1);
    const company_id = await resolveCompany(sql, customerId, company ?? null, deferred);
    const declared = await requireKnown(sql, customerId, body);
    const columns = patchedContact(blank, body, company_id, declared);
    if (!hasIdentity(columns)) throw withoutIdentity();
    const [contact] = await sql<{ id: LockedId }[]>`
      insert into contacts ${sql({ customer_id: customerId, ...encodedContact(sql, customerId, columns) })}
      returning id`;
    const { id } = contact!;
    if (list_ids?.length) await setManualLists(sql, customerId, new Map([[id, list_ids]]));
    deferred.created('contact', { id, external_id: columns.external_id });
    return id;
  });

export const updateContact: UpdateRecord<ContactPatch> = (sql, customerId, id, patch, ifMatch) =>
  withDeferredWrites(sql, customerId, async (deferred) => {
    const { company, list_ids } = patch;
    // The company is locked before the contact: see the order of locks in deferred-writes.ts.
    const company_id = company === undefined ? undefined : await resolveCompany(sql, customerId, company, deferred);
    const declared = await requireKnown(sql, customerId, patch);
    const { id: locked, ...current } = await lockContact(sql, customerId, id, ifMatch);
    if (Object.keys(patch).length === 0) return;
    const columns = patchedContact(current, patch, company_id, declared);
    const [state] = await statesOf(sql, customerId, [{ stored: { ...current, id: locked }, columns }]);
    await updateContactRow(sql, customerId, locked, columns);
    if (list_ids) await setManualLists(sql, customerId, new Map([[locked, list_ids]]));
    deferred.updated('contact', { id, external_id: columns.external_id }, state!.stored, state!.columns);
  });

/**
 * Returns the columns of contacts before and after an update, for their events. A new work e-mail resets the
 * verification, so its columns are included then. Call it before the update.
 */
export async function statesOf(
  sql: Transaction,
  customerId: string,
  changes: readonly { stored: Locked<ContactColumns>; columns: ContactColumns }[],
): Promise<{ stored: object; columns: object }[]> {
  const reset = changes.filter(({ stored, columns }) => fold(stored.work_email) !== fold(columns.work_email));
  if (reset.length === 0) return [...changes];
  const rows = await sql<{ id: string; verification_status: string; last_verified: string | null }[]>`
    select id, verification_status, last_verified
    from contacts
    where customer_id = ${customerId}
      and id = any(${reset.map(({ stored }) => stored.id)}::uuid[])`;
  const verifications = new Map(rows.map(({ id, ...verification }) => [id, verification]));
  return changes.map(({ stored, columns }) => {
    const verification = verifications.get(stored.id);
    return verification
      ? { stored: { ...stored, ...verification }, columns: { ...columns, ...unverified } }
      : { stored, columns };
  });
}

const unverified = { verification_status: 'unverified', last_verified: null };

const columnsOf = <T extends { work_email?: string | null }>(fields: T) =>
  normalise({ ...fields, ...(fields.work_email === null ? { work_email: '' } : {}) }) as T & { work_email: string };

const hasIdentity = ({ work_email, external_id, profnet_url, phone_numbers, mobile_phone }: ContactColumns): boolean =>
  Boolean(work_email || external_id || mobile_phone?.trim() || profileKey(profnet_url ?? '')) ||
  phone_numbers.some(({ number }) => number.trim() !== '');

const withoutIdentity = (): DomainError =>
  validationFailed([
    {
      path: '/work_email',
      message: 'must be an e-mail address, unless the contact has an external_id, a profnet_url or a phone number',
    },
  ]);

/**
 * Returns the columns of a contact after a PATCH.
 * @param companyId the id of the company in `patch`; undefined if `patch` has no company
 * @throws DomainError `validation_failed` if the patch removes the last value that identifies the contact, or if its
 *   custom fields are not valid
 */
export function patchedContact(
  current: ContactColumns,
  { company: _company, list_ids: _lists, custom_fields, ...fields }: ContactPatch,
  companyId: string | null | undefined,
  declared: Declared,
): ContactColumns {
  const columns = {
    ...current,
    ...columnsOf(fields),
    ...(custom_fields ? { custom_fields: mergeCustomFields(current.custom_fields, custom_fields, declared) } : {}),
    ...(companyId === undefined ? {} : { company_id: companyId }),
  };
  if (hasIdentity(current) && !hasIdentity(columns)) throw withoutIdentity();
  return columns;
}

/**
 * Returns the declarations of the custom fields in `body`.
 * @throws DomainError `not_found` if `body` refers to lists or to a user that the customer does not have
 */
async function requireKnown(sql: Transaction, customerId: string, body: ContactPatch): Promise<Declared> {
  const [[unknown], declared] = await Promise.all([
    findUnknownReferences(sql, customerId, [body]),
    findDeclared(sql, customerId, 'contacts', [body]),
  ]);
  if (unknown) throw unknown;
  return declared;
}

async function updateContactRow(
  sql: Transaction,
  customerId: string,
  id: LockedId,
  { company_id, ...columns }: ContactColumns,
): Promise<void> {
  const { company_id: _none, ...encoded } = encodedContact(sql, customerId, { ...columns, company_id });
  await sql`
    update contacts r
    set
      ${sql(encoded)},
      company_id = ${companyAfter(sql, customerId, 'r', sql`${company_id}::uuid`)},
      ${verificationOf(sql, sql`${fold(columns.work_email)}`)},
      updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
}

export async function removeContacts(
  sql: Transaction,
  customerId: string,
  ids: readonly LockedId[],
  deferred: DeferredWrites,
  { merged_into, moved, isPurged = false }: Removal = {},
): Promise<void> {
  if (ids.length === 0) return;
  const opportunities = await removeFromOpportunities(sql, customerId, ids);
  await detachActivities(sql, customerId, 'contact', ids);
  const lists = await removeFromAllLists(sql, customerId, ids);
  const removed = await sql<(ContactColumns & { id: string })[]>`
    delete from contacts
    where customer_id = ${customerId}
      and id = any(${ids as LockedId[]}::uuid[])
    returning id, ${constant(sql, [...contactFields, 'company_id', ...serviceColumns].join(', '))}`;
  for (const { id, ...values } of inOrderOf(ids, removed)) {
    const links = { list_ids: lists.get(id) ?? [], opportunities: opportunities.get(id) ?? [] };
    const kept = isPurged ? undefined : { ...values, ...links, ...moved?.get(id) };
    deferred.deleted('contact', { id, external_id: values.external_id }, kept, { merged_into });
  }
  deferred.count('contacts', -ids.length);
}

/**
 * Locks a contact, and returns its columns. Other transactions cannot add it to a list until this one ends.
 * @throws DomainError `not_found`; `precondition_failed` if `ifMatch` is not the current ETag
 */
async function lockContact(
  sql: Transaction,
  customerId: string,
  id: string,
  ifMatch?: string,
): Promise<Locked<ContactColumns>> {
  const [row] = await lockContactRows(sql, customerId, [id]);
  if (!row) throw notFound('contact');
  if (ifMatch !== undefined) requireMatch(ifMatch, (await findContacts(sql, customerId, [id]))[0]!);
  return row;
}

/**
 * Locks contacts, and returns their columns. Other transactions cannot add them to a list until this one ends. The id
 * of a deleted company is returned as null.
 */
export const lockContactRows = (
  sql: Transaction,
  customerId: string,
  ids: readonly string[],
): Promise<Locked<ContactColumns>[]> => sql<Locked<ContactColumns>[]>`
  select
    c.id,
    ${constant(sql, contactFields.map((name) => `c.${name}`).join(', '))},
    nullif(c.company_id, ${deletedCompanyOf(sql, customerId, 'c')}) as company_id
  from contacts c
  where c.customer_id = ${customerId}
    and c.id = any(${ids as string[]}::uuid[])
  order by c.id
  for update of c`;

/**
 * Locks the company of a contact's field `company`, and returns its id. Creates a company that is given by name or
 * domain and does not exist.
 */
async function resolveCompany(
  sql: Transaction,
  customerId: string,
  company: CompanyReference | null,
  deferred: DeferredWrites,
): Promise<string | null> {
  const { id, external_id: externalId } = company ?? {};
  const named = namedCompanyOf(company ?? {});
  if (named) return findOrCreateCompany(sql, customerId, named, deferred);
  if (id !== undefined) return lockCompanyForContact(sql, customerId, id, '/company/id');
  if (externalId === undefined) return null;
  const found = (await findByExternalIds(sql, customerId, companyTable, [externalId])).get(externalId);
  if (found === undefined) throw notFound('company', ['/company/external_id']);
  return lockCompanyForContact(sql, customerId, found, '/company/external_id');
}

export function contactRow(customerId: string, columns: ContactColumns) {
  const { folded, terms } = searchColumnsOfContact(customerId, columns);
  return { ...columns, folded, terms: arrayLiteral(terms) };
}

/**
 * Returns SQL assignments for an update of the contact `r`. A new work e-mail resets the contact to unverified.
 * @param email SQL expression: the new work e-mail in lower case
 */
const verificationOf = (sql: Transaction, email: Fragment): Fragment => sql`
  verification_status = case when r.folded ->> 'work_email' = ${email} then r.verification_status else 'unverified' end,
  last_verified = case when r.folded ->> 'work_email' = ${email} then r.last_verified end`;

/** Returns SQL for the company id of a contact if that company is deleted, else null. */
const deletedCompanyOf = (sql: Transaction, customerId: string, alias: 'c' | 'r'): Fragment => sql`(
  select gone.id
  from companies gone
  where gone.customer_id = ${customerId}::uuid
    and gone.id = ${constant(sql, alias)}.company_id
    and not (${constant(sql, isLive('gone'))})
)`;

/**
 * Returns SQL for the company id of an updated contact. Without a new company, the id of a deleted company stays, so
 * that an undo of the deletion brings it back.
 * @param given SQL expression: the id of the new company
 */
export const companyAfter = (sql: Transaction, customerId: string, alias: 'c' | 'r', given: Fragment): Fragment =>
  sql`coalesce(${given}, ${deletedCompanyOf(sql, customerId, alias)})`;

export const contactsWritten: WrittenTable<ReturnType<typeof contactRow>> = {
  name: 'contacts',
  columns: [...contactFields, 'company_id', 'folded', 'terms'],
  unassigned: ['company_id'],
  computedAssignments: (sql, customerId) => sql`
    company_id = ${companyAfter(sql, customerId, 'r', sql`given.company_id`)},
    ${verificationOf(sql, sql`given.folded ->> 'work_email'`)}`,
};

export function encodedContact(sql: Transaction, customerId: string, columns: ContactColumns) {
  const row = contactRow(customerId, columns);
  return {
    ...row,
    phone_numbers: sql.json(row.phone_numbers),
    custom_fields: sql.json(row.custom_fields),
    folded: sql.json(row.folded),
  };
}
