import type { Queryable, Transaction, Locked } from '../../database/db.ts';
import { RecordsChanged } from '../../errors.ts';
import { type Fragment, type FragmentMaker, constant } from '../../filters/sql.ts';
import type { Verification } from '../../schemas/verification.ts';
import { emailKey, fold } from '../../text/fold.ts';
import { lockBulk, lockedInOrder, withDeferredWrites, lockContacts } from '../records/deferred-writes.ts';
import { findSuccessors } from '../records/merged-records.ts';
import type { CountryCodes } from '../../files/phones.ts';
import { lookUpCompany } from '../../filters/columns.ts';
import { contactFields } from '../../schemas/contacts.ts';
import type { EnrichedField } from '../../schemas/clean-data.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import type { LockedCompanies } from '../records/batches.ts';
import { findOrCreateNamed, lockCompanies, type NamedCompany } from './companies.ts';
import { updateSynced, companyOf, isEmpty, toContact } from './crm-sync.ts';
import { serviceColumns, type WholeContact } from './contacts.ts';

/**
 * Returns SQL for the newest result of an address that a job can reuse, or null.
 * @param address SQL expression: the address in lower case without accents
 * @param since SQL expression: results before this time are not reused
 */
export const earlierVerification = (
  sql: FragmentMaker,
  customerId: string,
  address: Fragment,
  since: Fragment,
): Fragment => sql`
  (
    select r.result
    from job_results r
    where r.customer_id = ${customerId}::uuid
      and r.verified_address = ${address}
      and r.finished_at > ${since}
    order by r.finished_at desc
    limit 1
  )`;

/**
 * Returns SQL for the time from which a job reuses earlier verifications. The time depends on the start of the job, so
 * what is free at the start stays free.
 */
export const sinceOfJob = (sql: FragmentMaker, jobId: string, hours: number): Fragment =>
  sql`uuid_extract_timestamp(${jobId}::uuid) - ${hours}::float8 * interval '1 hour'`;

export const sinceNow = (sql: FragmentMaker, hours: number): Fragment =>
  sql`now() - ${hours}::float8 * interval '1 hour'`;

export async function countReusable(sql: Queryable, customerId: string, jobId: string, hours: number): Promise<number> {
  if (hours === 0) return 0;
  const [row] = await sql<[{ reusable: number }]>`
    select count(*) as reusable
    from job_inputs i
    where i.customer_id = ${customerId}
      and i.job_id = ${jobId}
      and not i.is_duplicate
      and ${earlierVerification(sql, customerId, sql`i.address`, sinceOfJob(sql, jobId, hours))} is not null`;
  return row.reusable;
}

export async function findReusable(
  sql: Queryable,
  customerId: string,
  addresses: readonly string[],
  since: Fragment,
): Promise<Set<string>> {
  const rows = await sql<{ address: string }[]>`
    select g.address
    from unnest(${addresses as string[]}::text[]) as g (address)
    where ${earlierVerification(sql, customerId, sql`g.address`, since)} is not null`;
  return new Set(rows.map(({ address }) => address));
}

/**
 * Locks the customer's verifications, and returns the addresses that another job has verified meanwhile. Only one of
 * two jobs with the same address is charged: the first to save. Call it just before the results are saved.
 */
export async function lockVerified(
  sql: Transaction,
  customerId: string,
  addresses: readonly string[],
  since: Fragment,
): Promise<Set<string>> {
  // Alone: the next statement must see what the transaction before has written.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`verifications:${customerId}`}, 0))`;
  return findReusable(sql, customerId, addresses, since);
}

export interface ContactVerification {
  address: string;
  status: Verification['status'];
  contactId: string;
}

/**
 * Saves the results of email verifications in contacts. Skips contacts that were deleted or whose work email has
 * changed.
 */
export async function saveVerifications(
  sql: Transaction,
  customerId: string,
  verifications: readonly ContactVerification[],
): Promise<void> {
  if (verifications.length === 0) return;
  await lockBulk(sql, customerId);
  // A contact that was merged meanwhile has the address of one of the merged contacts, or none of them.
  const named = verifications.map(({ contactId }) => contactId);
  const successors = await findSuccessors(sql, customerId, named);
  const current = verifications.map((one) => ({ ...one, contactId: successors.get(one.contactId) ?? one.contactId }));
  const given = [...new Set(current.map(({ contactId }) => contactId))];
  const addressed = await lockAddresses(sql, customerId, given);
  const stored = new Map<string, Addressed>(addressed.map((contact) => [contact.id, contact]));
  const statuses = new Map(
    current.flatMap(({ address, status, contactId }) => {
      const contact = stored.get(contactId);
      return contact && emailKey(contact.work_email) === emailKey(address) ? [[contact.id, status] as const] : [];
    }),
  );
  const ids = [...statuses.keys()];
  // One time for all columns: in a distributed database each subquery reads the clock at another moment.
  const written = await sql<(Verified & { id: string })[]>`
    with clock as materialized (
      select clock_timestamp() as now
    )
    update contacts c
    set
      verification_status = v.status,
      last_verified = clock.now,
      crm_synced_at = clock.now,
      updated_at = clock.now
    from unnest(${ids}::uuid[], ${[...statuses.values()]}::text[]) as v (id, status), clock
    where c.customer_id = ${customerId}
      and c.id = v.id
    returning c.id, c.verification_status, c.last_verified, c.crm_synced_at`;
  await withDeferredWrites(sql, customerId, async (deferred) => {
    for (const { id, ...verified } of written) {
      const contact = stored.get(id)!;
      deferred.updated('contact', { id, external_id: contact.external_id }, contact, verified);
    }
  });
}

interface Verified {
  verification_status: string;
  last_verified: string | null;
  crm_synced_at: string | null;
}

type Addressed = Locked<Verified & { external_id: string | null; work_email: string }>;

const lockAddresses = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<Addressed[]> => sql`
  select id, external_id, work_email, verification_status, last_verified, crm_synced_at
  from contacts
  where customer_id = ${customerId}
    and id = any(${ids as string[]}::uuid[])
  ${lockedInOrder(sql)}`;

export type EnrichedContact = WholeContact & { id: string; company_name: string | null };

export interface EnrichOptions {
  fields: readonly EnrichedField[];
  overwrite: boolean;
}

export interface Enrichment<Contact = EnrichedContact> {
  contact: Contact;
  prospect: Prospect;
  changed: EnrichedField[];
  filled: WholeContact;
  company: NamedCompany | undefined;
}

/**
 * Reads the contacts that a job names, by id. For a merged contact, reads the contact that replaced it. Deleted
 * contacts are missing.
 * @throws RecordsChanged if such a contact is merged or deleted meanwhile
 */
export async function readEnriched(
  sql: Queryable,
  customerId: string,
  ids: readonly string[],
): Promise<Map<string, EnrichedContact>> {
  const found = await selectContacts(sql, customerId, ids);
  const missing = ids.filter((id) => !found.has(id));
  const successors = await findSuccessors(sql, customerId, missing);
  const merged = await selectContacts(sql, customerId, [...successors.values()]);
  for (const [id, successor] of successors) {
    const contact = merged.get(successor);
    if (!contact) throw new RecordsChanged();
    found.set(id, contact);
  }
  return found;
}

async function selectContacts(
  sql: Queryable,
  customerId: string,
  ids: readonly string[],
): Promise<Map<string, EnrichedContact>> {
  if (ids.length === 0) return new Map();
  const columns = [...contactFields, ...serviceColumns].map((name) => `c.${name}`).join(', ');
  const rows = await sql<EnrichedContact[]>`
    select
      c.id,
      ${constant(sql, columns)},
      co.id as company_id,
      co.company_name
    from contacts c
    ${lookUpCompany(sql, customerId, 'c')}
    where c.customer_id = ${customerId}
      and c.id = any(${ids as string[]}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

export function enrichmentOf<Contact extends EnrichedContact>(
  contact: Contact,
  prospect: Prospect,
  codeOf: CountryCodes,
  options: EnrichOptions,
): Enrichment<Contact> {
  const inCatalog = toContact(prospect, codeOf);
  const { id: _id, company_name: own, ...before } = contact;
  const offered = companyOf(prospect);
  const isNewCompany =
    offered !== undefined &&
    options.fields.includes('company') &&
    (own === null || (options.overwrite && fold(own) !== fold(offered.company_name)));
  const changed = options.fields.filter((field) =>
    field === 'company' ? isNewCompany : isFilled(field, before, inCatalog, options.overwrite),
  );
  const values = changed.flatMap((field) => (field === 'company' ? [] : [[field, inCatalog[field]] as const]));
  const filled: WholeContact = { ...before, ...Object.fromEntries(values) };
  return {
    contact,
    prospect,
    changed,
    filled: withServiceColumns(filled, before, inCatalog),
    company: isNewCompany ? offered : undefined,
  };
}

function isFilled(
  field: Exclude<EnrichedField, 'company'>,
  before: WholeContact,
  inCatalog: WholeContact,
  overwrite: boolean,
): boolean {
  const [own, value] = [before[field], inCatalog[field]];
  if (isEmpty(value) || (!isEmpty(own) && !overwrite)) return false;
  return field === 'work_email'
    ? fold(String(own)) !== fold(String(value))
    : JSON.stringify(own) !== JSON.stringify(value);
}

/**
 * Sets the columns that only the service writes. Copies a verification only if the contact has the verified address.
 */
function withServiceColumns(filled: WholeContact, before: WholeContact, inCatalog: WholeContact): WholeContact {
  const isSameAddress = filled.work_email !== '' && fold(filled.work_email) === fold(inCatalog.work_email);
  const isNewAddress = fold(filled.work_email) !== fold(before.work_email);
  const { verification_status, last_verified } =
    isSameAddress && (isNewAddress || before.verification_status === 'unverified') ? inCatalog : before;
  return {
    ...filled,
    verification_status,
    last_verified,
    prospect_id: before.prospect_id ?? inCatalog.prospect_id,
    score: before.score === 0 ? inCatalog.score : before.score,
  };
}

export interface LockedEnrichments {
  companies: LockedCompanies;
  enrichments: Map<string, Enrichment<Locked<EnrichedContact>>>;
}

/**
 * Locks contacts, and returns what the matched prospects change in them.
 * @param matched prospects by the contact ids of the job
 * @throws RecordsChanged if two ids are now of the same contact, because of a merge
 */
export async function lockEnrichments(
  sql: Transaction,
  customerId: string,
  matched: ReadonlyMap<string, Prospect>,
  codeOf: CountryCodes,
  options: EnrichOptions,
): Promise<LockedEnrichments> {
  const prospects = [...matched.values()];
  const names = options.fields.includes('company')
    ? [...new Set(prospects.flatMap((prospect) => companyOf(prospect)?.company_name ?? []).map(fold))]
    : [];
  await lockBulk(sql, customerId);
  const companies = await lockCompanies(sql, customerId, { keys: names });
  const seen = await readEnriched(sql, customerId, [...matched.keys()]);
  await lockContacts(sql, customerId, [...new Set([...seen.values()].map(({ id }) => id))]);
  // A new statement, because the contacts may have changed before they were locked.
  const current = requireDistinct(await readEnriched(sql, customerId, [...matched.keys()]));
  const enrichments: LockedEnrichments['enrichments'] = new Map();
  for (const [id, prospect] of matched) {
    const contact = current.get(id);
    if (contact) enrichments.set(id, enrichmentOf(contact, prospect, codeOf, options));
  }
  return { companies, enrichments };
}

function requireDistinct(locked: ReadonlyMap<string, EnrichedContact>): ReadonlyMap<string, Locked<EnrichedContact>> {
  if (new Set([...locked.values()].map(({ id }) => id)).size < locked.size) throw new RecordsChanged();
  return locked as ReadonlyMap<string, Locked<EnrichedContact>>;
}

export async function writeEnrichments(
  sql: Transaction,
  customerId: string,
  { companies }: LockedEnrichments,
  chosen: readonly Enrichment<Locked<EnrichedContact>>[],
): Promise<void> {
  if (chosen.length === 0) return;
  await withDeferredWrites(sql, customerId, async (deferred) => {
    const wanted = chosen.flatMap(({ company }) => company ?? []);
    const ids = await findOrCreateNamed(sql, customerId, companies, wanted, deferred);
    const rows = chosen.map(({ contact, filled, company }) => ({
      id: contact.id,
      stored: contact,
      contact: company ? { ...filled, company_id: ids.get(fold(company.company_name)) ?? null } : filled,
    }));
    await updateSynced(sql, customerId, rows, deferred);
  });
}
