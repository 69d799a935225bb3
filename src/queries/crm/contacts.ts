import type { Transaction, Database, Locked, LockedId } from '../../database/db.ts';
import { type DomainError, validationFailed } from '../../errors.ts';
import { removeFromAllLists } from './list-members.ts';
import { contactSource } from '../../filters/columns.ts';
import { isLive, liveLists, constant, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import { searchColumnsOf } from '../../filters/to-sql.ts';
import { completeRules, rulesFilter } from '../../filters/rules.ts';
import { parseRecordQuery } from '../../filters/parse.ts';
import { blankOf } from '../../schemas/wire.ts';
import { Contact, contactFields, listNames } from '../../schemas/contacts.ts';
import type { ContactDetail, ContactPatch } from '../../schemas/contacts.ts';
import { contactFileFields } from '../../schemas/files.ts';
import type { RuleGiven } from '../../schemas/lists.ts';
import { fold, normalise } from '../../text/fold.ts';
import { profileKey } from '../../text/domains.ts';
import type { WrittenTable } from '../records/batch-rows.ts';
import { inOrderOf } from '../records/finders.ts';
import type { DeferredWrites, Removal } from '../records/deferred-writes.ts';
import { mergeCustomFields, type Declared } from '../records/custom-fields.ts';
import { detachActivities, lastActivityAt, removeFromOpportunities } from './links.ts';
import { countRecords, readRecordPage, recordReads } from './record-pages.ts';

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

export type WholeContact = ContactColumns &
  Pick<Contact, 'score' | 'verification_status' | 'crm_synced_at' | 'removal_requested_at'> & {
    prospect_id: string | null;
    last_verified: string | null;
  };

const shown = `
  c.id,
  ${contactFields.map((column) => `c.${column}`).join(', ')},
  json_build_object(
    'id', co.id, 'external_id', co.external_id, 'company_name', coalesce(co.company_name, ''), 'industry', coalesce(co.industry, '')
  ) as company,
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
  find: findContacts,
  list: listContacts,
  count: countContacts,
  countUpTo: countContactsUpTo,
  export: exportContacts,
} = recordReads<Contact, ContactDetail>({
  source: contactSource,
  projection,
  detailed: (sql, customerId) => sql`
    ${projection(sql)},
    array(${manualLists(sql, customerId, 'id')} order by l.id) as list_ids,
    ${lastActivityAt(sql, customerId, 'contact', 'c.id')} as last_activity_at`,
  forPeople: (sql, customerId) =>
    sql`
      ${projection(sql)},
      array(${manualLists(sql, customerId, 'name')} order by l.name) as ${constant(sql, listNames)},
      (select u.email from users u where u.customer_id = ${customerId}::uuid and u.id = c.assigned_to) as assigned_email`,
  fields: contactFileFields,
  title: 'Contacts',
});

/** Returns the number of contacts that match rules, counted up to `max` + 1, and the newest of them. */
export async function previewRules(
  db: Database,
  customerId: string,
  rules: readonly RuleGiven[],
  max: number,
  limit: number,
): Promise<{ total: number; newest: Contact[] }> {
  const filter = rulesFilter(contactSource.fields, completeRules(rules));
  const query = { ...parseRecordQuery(contactSource, customerId, { paginate: { limit } }), filter };
  const [total, page] = await Promise.all([
    countRecords(db, query, max),
    readRecordPage<Contact>(db, query, projection),
  ]);
  return { total, newest: page.rows };
}

interface ContactChange {
  stored: Locked<ContactColumns>;
  columns: ContactColumns;
}

const isReset = ({ stored, columns }: ContactChange): boolean => fold(stored.work_email) !== fold(columns.work_email);

const getsCompany = ({ stored, columns }: ContactChange): boolean =>
  stored.company_id === null && columns.company_id !== null;

/**
 * Returns the columns of contacts before and after an update, for their events: also those of a verification that is
 * reset, and the id of a deleted company that another one replaces. Call it before the update.
 */
export async function statesOf(
  sql: Transaction,
  customerId: string,
  changes: readonly ContactChange[],
): Promise<{ stored: object; columns: object }[]> {
  const asked = changes.filter((change) => isReset(change) || getsCompany(change));
  if (asked.length === 0) return [...changes];
  const rows = await sql<
    { id: string; verification_status: string; last_verified: string | null; deleted_company_id: string | null }[]
  >`
    select id, verification_status, last_verified, company_id as deleted_company_id
    from contacts
    where customer_id = ${customerId}
      and id = any(${asked.map(({ stored }) => stored.id)}::uuid[])`;
  const found = new Map(rows.map(({ id, ...row }) => [id, row]));
  return changes.map((change) => {
    const { deleted_company_id, ...verification } = found.get(change.stored.id) ?? {};
    return {
      stored: {
        ...change.stored,
        ...(isReset(change) && verification),
        ...(getsCompany(change) && { deleted_company_id }),
      },
      columns: {
        ...change.columns,
        ...(isReset(change) && unverified),
        ...(getsCompany(change) && { deleted_company_id: null }),
      },
    };
  });
}

const unverified = { verification_status: 'unverified', last_verified: null };

const columnsOf = <T extends { work_email?: string | null }>(fields: T) =>
  normalise({ ...fields, ...(fields.work_email === null ? { work_email: '' } : {}) }) as T & { work_email: string };

export const hasIdentity = ({
  work_email,
  external_id,
  profnet_url,
  phone_numbers,
  mobile_phone,
}: ContactColumns): boolean =>
  Boolean(work_email || external_id || mobile_phone?.trim() || profileKey(profnet_url ?? '')) ||
  phone_numbers.some(({ number }) => number.trim() !== '');

export const withoutIdentity = (): DomainError =>
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
 * Locks contacts, and returns their columns. Other transactions cannot add them to a list until this one ends. The id
 * of a deleted company is returned as null.
 */
export const lockContactRows = (
  sql: Transaction,
  customerId: string,
  ids: readonly string[],
): Promise<Locked<ContactColumns>[]> => sql`
  select
    c.id,
    ${constant(sql, contactFields.map((name) => `c.${name}`).join(', '))},
    nullif(c.company_id, ${deletedCompanyOf(sql, customerId, 'c')}) as company_id
  from contacts c
  where c.customer_id = ${customerId}
    and c.id = any(${ids as string[]}::uuid[])
  order by c.id
  for update of c`;

export const contactRow = <Columns extends ContactColumns>(customerId: string, columns: Columns) => ({
  ...columns,
  ...searchColumnsOf(contactSource, customerId, columns),
});

const deletedCompanyOf = (sql: Transaction, customerId: string, alias: 'c' | 'r'): Fragment => sql`(
  select gone.id
  from companies gone
  where gone.customer_id = ${customerId}::uuid
    and gone.id = ${constant(sql, alias)}.company_id
    and not (${constant(sql, isLive('gone'))})
)`;

/**
 * Returns the SQL assignment of the company id of an updated record. Without a new company, the id of a deleted company
 * stays, so that an undo of the deletion brings it back.
 */
export const assignCompany = (sql: Transaction, customerId: string): Fragment =>
  sql`company_id = coalesce(given.company_id, ${deletedCompanyOf(sql, customerId, 'r')})`;

export const contactsWritten: WrittenTable<ReturnType<typeof contactRow<ContactColumns>>> = {
  name: 'contacts',
  columns: [...contactFields, 'company_id', 'folded', 'terms'],
  unassigned: ['company_id'],
  // A new work e-mail resets the contact to unverified.
  computedAssignments: (sql, customerId) => sql`
    ${assignCompany(sql, customerId)},
    verification_status = case
      when r.folded ->> 'work_email' = given.folded ->> 'work_email' then r.verification_status
      else 'unverified'
    end,
    last_verified = case when r.folded ->> 'work_email' = given.folded ->> 'work_email' then r.last_verified end`,
};

export const wholeContacts: WrittenTable<ReturnType<typeof contactRow<WholeContact>>> = {
  ...contactsWritten,
  columns: [...contactsWritten.columns, ...serviceColumns],
  computedAssignments: assignCompany,
};
