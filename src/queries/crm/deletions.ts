import type { Locked, LockedId, Transaction } from '../../database/db.ts';
import { RecordsChanged } from '../../errors.ts';
import { clearValues } from '../records/journal.ts';
import type { FindRecords } from '../records/finders.ts';
import { type DeferredWrites, lockedInOrder, lockBulk } from '../records/deferred-writes.ts';
import type { Writing } from '../records/record-writes.ts';
import { purgeActivitiesOf } from './links.ts';
import { purgeMerged, findByMergedProspect } from '../records/merged-records.ts';
import { blankCompany, companiesWritten, companyRow, findCompanies, removeCompanies } from './companies.ts';
import type { CompanyColumns } from './companies.ts';
import { updateRows } from '../records/batch-rows.ts';
import { findContacts, removeContacts, type ContactColumns } from './contacts.ts';

/** Deletes locked contacts. A purge also removes the remaining data of contacts that were deleted earlier. */
export async function deleteContacts(writing: Writing<ContactColumns>, removed: readonly Locked<object>[]) {
  const { sql, customerId, batch, deferred } = writing;
  const ids = removed.map(({ id }) => id);
  await removeContacts(sql, customerId, ids, deferred, batch);
  if (batch.isPurged)
    await purge(writing, findContacts, (purged) => purgeActivitiesOf(sql, customerId, purged, deferred));
}

export async function deleteCompanies(writing: Writing<CompanyColumns>, removed: readonly Locked<object>[]) {
  const { sql, customerId, batch, deferred } = writing;
  const ids = removed.map(({ id }) => id);
  await removeCompanies(sql, customerId, ids, deferred, batch);
  if (batch.isPurged) await purge(writing, findCompanies, (purged) => blankRows(sql, customerId, purged));
}

/**
 * Removes what is kept of deleted records, so that no undo can restore them: their values in the journal, their rows,
 * the activities of contacts, and merges into them.
 * @throws RecordsChanged if an undo has restored one of them meanwhile
 */
async function purge<Row>(
  { sql, customerId, items }: Writing<Row>,
  find: FindRecords<object>,
  purgeOwn: (ids: string[]) => Promise<void>,
): Promise<void> {
  const ids = items.flatMap(({ outcome }) => (outcome?.status === 'deleted' ? outcome.id : []));
  await clearValues(sql, customerId, ids);
  await purgeMerged(sql, customerId, ids);
  await purgeOwn(ids);
  if ((await find(sql, customerId, ids)).length > 0) throw new RecordsChanged();
}

async function blankRows(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await updateRows(sql, customerId, companiesWritten, ids as LockedId[], (id) => ({
    id,
    ...companyRow(customerId, blankCompany),
  }));
  await sql`
    update companies
    set deleted_at = 'epoch'
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
      and deleted_at is not null`;
}

/*
 * The rows of deleted companies and lists, what refers to them, and hidden activities stay for `HISTORY_DAYS`, so that the
 * deletion can be undone. No read finds them (filters/sql.ts). Then these functions remove them, in short transactions.
 */

const batchSize = 1_000;

interface Deleted {
  customerId: string;
  ids: string[];
}

const since = { companies: 'deleted_at', lists: 'deleted_at', activities: 'hidden_at' } as const;

async function findDeleted(sql: Transaction, table: keyof typeof since, days: number): Promise<Deleted | undefined> {
  const rows = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from ${sql(table)}
    where ${sql(since[table])} <= now() - make_interval(days => ${days})
    order by ${sql(since[table])}
    limit ${batchSize}`;
  const [first] = rows;
  if (!first) return undefined;
  const ids = rows.filter(({ customer_id }) => customer_id === first.customer_id).map(({ id }) => id);
  return { customerId: first.customer_id, ids };
}

/**
 * Clears a batch of references to companies that were deleted more than `days` ago. If no references are left, deletes
 * the rows of these companies.
 * @returns the number of changed rows; 0 if there are no such companies
 */
export async function purgeCompanies(sql: Transaction, days: number): Promise<number> {
  const deleted = await findDeleted(sql, 'companies', days);
  if (!deleted) return 0;
  const { customerId, ids } = deleted;
  const references =
    (await detach(sql, 'contacts', deleted)).count || (await detach(sql, 'opportunities', deleted)).count;
  if (references > 0) return references;
  const { count } = await sql`
    delete from companies
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  return count;
}

/** Clears a batch of references to deleted companies. Keeps `updated_at`, because responses stay the same. */
const detach = (sql: Transaction, table: 'contacts' | 'opportunities', { customerId, ids }: Deleted) => sql`
  with detached as (
    select id
    from ${sql(table)}
    where customer_id = ${customerId}
      and company_id = any(${ids}::uuid[])
    order by id
    limit ${batchSize}
    for no key update
  )
  update ${sql(table)} r
  set company_id = null
  from detached
  where r.customer_id = ${customerId}
    and r.id = detached.id`;

/**
 * Deletes a batch of members of lists that were deleted more than `days` ago. If no members are left, deletes the rows
 * of these lists.
 * @returns the number of deleted rows; 0 if there is nothing to do, or other transactions have locked the rest
 */
export async function purgeLists(sql: Transaction, days: number): Promise<number> {
  const deleted = await findDeleted(sql, 'lists', days);
  if (!deleted) return 0;
  const { customerId, ids } = deleted;
  // Never waits for a row: who deletes contacts locks their memberships in another order.
  const members = await sql`
    with gone as (
      select list_id, contact_id
      from list_members
      where customer_id = ${customerId}
        and list_id = any(${ids}::uuid[])
      order by list_id, contact_id
      limit ${batchSize}
      for update skip locked
    )
    delete from list_members m
    using gone
    where m.customer_id = ${customerId}
      and m.list_id = gone.list_id
      and m.contact_id = gone.contact_id`;
  if (members.count > 0) return members.count;
  const lists = await sql`
    delete from lists l
    where l.customer_id = ${customerId}
      and l.id = any(${ids}::uuid[])
      and not exists (select 1 from list_members m where m.customer_id = ${customerId} and m.list_id = l.id)`;
  return lists.count;
}

export async function purgeActivities(sql: Transaction, days: number): Promise<number> {
  const hidden = await findDeleted(sql, 'activities', days);
  if (!hidden) return 0;
  const { count } = await sql`
    delete from activities
    where customer_id = ${hidden.customerId}
      and id = any(${hidden.ids}::uuid[])
      and hidden_at is not null`;
  return count;
}

/**
 * Marks contacts that came from prospects who were erased from the catalog, and contacts into which such contacts were
 * merged. Skips contacts that are already marked.
 * @returns ids of the newly marked contacts
 */
export async function markRemovalRequested(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
  deferred: DeferredWrites,
): Promise<LockedId[]> {
  // Without this lock, a merge could give the prospect to a contact that is not found here.
  await lockBulk(sql, customerId);
  const merged = (await findByMergedProspect(sql, customerId, prospectIds)).map(({ merged_into }) => merged_into);
  const rows = await sql<{ id: LockedId; external_id: string | null }[]>`
    select id, external_id
    from contacts
    where customer_id = ${customerId}
      and (
        (prospect_id is not null and prospect_id = any(${prospectIds as string[]}::uuid[]))
        or id = any(${merged}::uuid[])
      )
      and removal_requested_at is null
    ${lockedInOrder(sql)}`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return [];
  const [{ now }] = await sql<[{ now: string }]>`select clock_timestamp()::timestamptz(3) as now`;
  await sql`
    update contacts
    set removal_requested_at = ${now}, updated_at = ${now}
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  for (const row of rows)
    deferred.updated('contact', row, { removal_requested_at: null }, { removal_requested_at: now });
  return ids;
}
