import { canonicalInstant } from '../../filters/columns.ts';
import { contactFields } from '../../schemas/contacts.ts';
import { isEmailAddress } from '../../schemas/formats.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import { fold, isPlaceholder } from '../../text/fold.ts';
import { blank, contactRow, serviceColumns, statesOf, wholeContacts, type WholeContact } from './contacts.ts';
import { insertRows, updateRows } from '../records/batch-rows.ts';
import { type CountryCodes, countryCodes } from '../../files/phones.ts';
import type { Locked, LockedId, Transaction } from '../../database/db.ts';
import { liveCompanies, constant } from '../../filters/sql.ts';
import { findOrCreateNamed, lockCompanies, type NamedCompany } from './companies.ts';
import type { LockedCompanies } from '../records/batches.ts';
import { lockContacts, withDeferredWrites, type DeferredWrites, lockBulk } from '../records/deferred-writes.ts';
import { findByMergedProspect } from '../records/merged-records.ts';
import { addToLists } from './list-members.ts';

/**
 * Maximum lengths of a contact's texts (characters), and its maximum number of other e-mail addresses. Values in the
 * catalog can be longer.
 */
const maxLengths = { text: 255, url: 2048, otherEmails: 20 };

// `phone_numbers` stays empty, because the catalog does not say where the country code ends.
/**
 * Converts a prospect to a contact. Unknown names and countries become `""`, and long texts are cut. Without a valid
 * work e-mail the contact is unverified, because the prospect's verification is about another address.
 */
export function toContact(prospect: Prospect, codeOf: CountryCodes): WholeContact {
  const work_email = isEmailAddress(prospect.work_email) ? prospect.work_email : '';
  return {
    ...blank,
    prospect_id: prospect._id,
    first_name: clip(prospect.first_name),
    last_name: clip(prospect.last_name),
    job_title: clip(prospect.job_title),
    industry: clip(prospect.job_company_industry),
    work_email,
    other_emails: otherEmails(prospect.emails, work_email),
    mobile_phone: prospect.mobile_phone && clip(prospect.mobile_phone),
    phone_numbers: [],
    location_locality: clip(prospect.location_locality),
    location_region: clip(prospect.location_region),
    location_country: codeOf(prospect.location_country),
    location_postal_code: prospect.location_postal_code && clip(prospect.location_postal_code),
    profnet_url: url(prospect.profnet_url),
    social1_url: url(prospect.social1_url),
    social2_url: url(prospect.social2_url),
    score: prospect.score,
    verification_status: work_email === '' ? 'unverified' : prospect.verification_status,
    last_verified: work_email === '' ? null : canonicalInstant(prospect.date_verified),
    crm_synced_at: null,
    removal_requested_at: null,
  };
}

/**
 * Returns the company of a prospect. Undefined if the name is a placeholder such as `-`, which would put people of
 * different companies together.
 */
export function companyOf(prospect: Prospect): { company_name: string; industry: string } | undefined {
  const company_name = clip(prospect.job_company_name.trim());
  return isPlaceholder(company_name) ? undefined : { company_name, industry: clip(prospect.job_company_industry) };
}

const clip = (text: string): string =>
  text.length <= maxLengths.text ? text : Array.from(text).slice(0, maxLengths.text).join('');

/** Returns the URL, or null if it is too long for a contact. A shortened URL would lead to another page. */
const url = (text: string | null): string | null => (text !== null && text.length <= maxLengths.url ? text : null);

function otherEmails(emails: string[], workEmail: string): string[] | null {
  const others = new Map(emails.filter(isEmailAddress).map((email) => [fold(email), email]));
  others.delete(fold(workEmail));
  return others.size === 0 ? null : [...others.values()].slice(0, maxLengths.otherEmails);
}

/**
 * Fills the empty fields of the contact `own` with those of a contact made from a prospect. A score of `0` counts as
 * empty. Takes the verification only if both then have the same work e-mail, and `own` is not verified.
 */
function fillIn<T extends WholeContact>(own: T, inCatalog: WholeContact): T {
  const filled = { ...own };
  for (const [column, value] of Object.entries(inCatalog))
    if (column !== 'last_verified' && !isEmpty(value) && isEmpty(own[column as keyof T]))
      Object.assign(filled, { [column]: value });
  const isVerified = own.verification_status !== 'unverified' && own.work_email !== '';
  if (isVerified || fold(filled.work_email) !== fold(inCatalog.work_email)) return filled;
  const { verification_status, last_verified } = inCatalog;
  return { ...filled, verification_status, last_verified };
}

export const isEmpty = (value: unknown): boolean =>
  value === null || value === '' || value === 0 || (Array.isArray(value) && value.length === 0);

interface SyncedRow {
  id: LockedId | undefined;
  stored?: WholeContact;
  contact: WholeContact;
}

/**
 * Creates contacts from prospects, with their companies and list memberships. Updates an existing contact with the same
 * prospect id or work e-mail instead.
 * @param listIds lists to which the contacts are added by hand
 * @returns a map from prospect id to contact id; prospects with the same email have the same contact
 */
export async function syncProspects(
  sql: Transaction,
  customerId: string,
  prospects: readonly Prospect[],
  listIds: readonly string[] = [],
): Promise<Map<string, string>> {
  // Locks are taken in the order that all writers use (deferred-writes.ts).
  if (prospects.length === 0) return new Map();
  const codeOf = await countryCodes();
  const inCatalog = prospects.map((prospect) => toContact(prospect, codeOf));
  await lockBulk(sql, customerId);
  const locked = await lockForSync(sql, customerId, prospects);
  const batch = new SyncBatch(await lockStored(sql, customerId, inCatalog));
  const rows = inCatalog.map((contact) => batch.add(contact));
  await withDeferredWrites(sql, customerId, async (deferred) => {
    await fillCompanies(sql, customerId, { prospects, rows, locked }, deferred);
    await write(sql, customerId, [...new Set(rows)], deferred);
    const ids = [...new Set(rows.map(({ id }) => id!))];
    if (listIds.length > 0) await addToLists(sql, customerId, { list_ids: listIds, contact_ids: ids });
  });
  return new Map(prospects.map(({ _id }, i) => [_id, rows[i]!.id!]));
}

interface Stored {
  stored: SyncedRow[];
  merged: ReadonlyMap<string, SyncedRow>;
}

class SyncBatch {
  readonly #byProspect = new Map<string, SyncedRow>();
  readonly #byEmail = new Map<string, SyncedRow>();

  constructor({ stored, merged }: Stored) {
    for (const row of stored) this.#note(row);
    for (const [prospectId, row] of merged)
      if (!this.#byProspect.has(prospectId)) this.#byProspect.set(prospectId, row);
  }

  add(inCatalog: WholeContact): SyncedRow {
    const row = this.#byProspect.get(inCatalog.prospect_id!) ?? this.#byEmail.get(fold(inCatalog.work_email));
    const added = row ?? { id: undefined, contact: inCatalog };
    added.contact = fillIn(added.contact, inCatalog);
    this.#note(added);
    return added;
  }

  #note(row: SyncedRow): void {
    const { prospect_id, work_email } = row.contact;
    const email = fold(work_email);
    if (prospect_id !== null && !this.#byProspect.has(prospect_id)) this.#byProspect.set(prospect_id, row);
    if (email !== '' && !this.#byEmail.has(email)) this.#byEmail.set(email, row);
  }
}

function lockForSync(sql: Transaction, customerId: string, prospects: readonly Prospect[]): Promise<LockedCompanies> {
  const companies = prospects.map(companyOf).filter((company) => company !== undefined);
  const names = [...new Set(companies.map(({ company_name }) => fold(company_name)))];
  return lockCompanies(sql, customerId, { keys: names });
}

const emailsOf = (inCatalog: readonly WholeContact[]): string[] =>
  [...new Set(inCatalog.map(({ work_email }) => fold(work_email)))].filter((email) => email !== '');

function findContacts(
  sql: Transaction,
  customerId: string,
  inCatalog: readonly WholeContact[],
): Promise<{ id: string }[]> {
  const ids = inCatalog.map(({ prospect_id }) => prospect_id!);
  return sql<{ id: string }[]>`
    select id
    from contacts
    where customer_id = ${customerId}
      and prospect_id is not null
      and prospect_id = any(${ids}::uuid[])
    union
    select oldest.id
    from unnest(${emailsOf(inCatalog)}::text[]) as wanted (email)
    cross join lateral (
      select id
      from contacts
      where customer_id = ${customerId}
        and (folded ->> 'work_email') collate "C" = wanted.email
      order by id
      limit 1
    ) oldest`;
}

/**
 * Locks the stored contacts that have the same prospect id or work e-mail as contacts in `inCatalog`. Returns their
 * values, the oldest first. The id of a deleted company is null.
 */
async function lockStored(sql: Transaction, customerId: string, inCatalog: readonly WholeContact[]): Promise<Stored> {
  const prospectIds = inCatalog.map(({ prospect_id }) => prospect_id!);
  const merged = await findByMergedProspect(sql, customerId, prospectIds);
  const found = (await findContacts(sql, customerId, inCatalog)).map(({ id }) => id);
  const ids = [...new Set([...found, ...merged.map(({ merged_into }) => merged_into)])];
  if (ids.length === 0) return { stored: [], merged: new Map() };
  // Both statements are sent together. The second statement's snapshot is taken after the first has the locks, so it also
  // sees a company that another transaction created for one of these contacts.
  const [, contacts] = await Promise.all([
    lockContacts(sql, customerId, ids),
    sql<Locked<WholeContact>[]>`
      select
        id,
        ${constant(sql, [...contactFields, ...serviceColumns].join(', '))},
        (
          select co.id
          from ${liveCompanies(sql, customerId)}
            and co.id = contacts.company_id
        ) as company_id
      from contacts
      where customer_id = ${customerId}
        and id = any(${ids}::uuid[])
      order by id`,
  ]);
  const stored = contacts.map(({ id, ...contact }) => ({ id, stored: contact, contact }));
  return { stored, merged: rowsOfMerged(stored, merged) };
}

function rowsOfMerged(stored: readonly SyncedRow[], merged: readonly { prospect_id: string; merged_into: string }[]) {
  const byId = new Map<string | undefined, SyncedRow>(stored.map((row) => [row.id, row]));
  return new Map(
    merged.flatMap(({ prospect_id, merged_into }) => {
      const row = byId.get(merged_into);
      return row ? [[prospect_id, row]] : [];
    }),
  );
}

async function fillCompanies(
  sql: Transaction,
  customerId: string,
  { prospects, rows, locked }: { prospects: readonly Prospect[]; rows: readonly SyncedRow[]; locked: LockedCompanies },
  deferred: DeferredWrites,
): Promise<void> {
  const wanted = new Map<SyncedRow, NamedCompany>();
  for (const [i, row] of rows.entries()) {
    const company = companyOf(prospects[i]!);
    if (company && row.contact.company_id === null && !wanted.has(row)) wanted.set(row, company);
  }
  const ids = await findOrCreateNamed(sql, customerId, locked, [...wanted.values()], deferred);
  for (const [synced, { company_name }] of wanted)
    synced.contact = { ...synced.contact, company_id: ids.get(fold(company_name)) ?? null };
}

async function write(sql: Transaction, customerId: string, rows: readonly SyncedRow[], deferred: DeferredWrites) {
  const [stored, fresh] = [rows.filter(({ id }) => id !== undefined), rows.filter(({ id }) => id === undefined)];
  await updateSynced(sql, customerId, stored, deferred);
  const crm_synced_at = await readClock(sql);
  const ids = await insertRows(sql, customerId, wholeContacts, fresh, ({ contact }) =>
    contactRow(customerId, { ...contact, crm_synced_at }),
  );
  for (const [i, row] of fresh.entries()) row.id = ids[i]!;
  deferred.count('contacts', fresh.length);
  for (const row of fresh) deferred.created('contact', eventSubjectOf(row));
}

const eventSubjectOf = ({ id, contact }: Pick<SyncedRow, 'id' | 'contact'>) => ({
  id: id!,
  external_id: contact.external_id,
});

export async function updateSynced(
  sql: Transaction,
  customerId: string,
  stored: readonly SyncedRow[],
  deferred: DeferredWrites,
): Promise<void> {
  if (stored.length === 0) return;
  const changes = stored.map(({ id, stored: before, contact }) => ({
    stored: { ...before!, id: id! },
    columns: contact,
  }));
  const states = await statesOf(sql, customerId, changes);
  const crm_synced_at = await readClock(sql);
  await updateRows(sql, customerId, wholeContacts, stored, ({ id, contact }) => ({
    ...contactRow(customerId, { ...contact, crm_synced_at }),
    id: id!,
  }));
  for (const [i, row] of stored.entries()) {
    const { stored: before, columns } = states[i]!;
    const after = { ...columns, ...row.contact, crm_synced_at };
    deferred.updated('contact', eventSubjectOf(row), { ...before, ...row.stored! }, after);
  }
}

async function readClock(sql: Transaction): Promise<string> {
  const [{ now }] = await sql<[{ now: string }]>`select clock_timestamp()::timestamptz(3) as now`;
  return now;
}
