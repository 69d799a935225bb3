import type { LockedId, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { requireMatch } from '../../text/ids.ts';
import { clearValues, findDeletedIds } from '../records/journal.ts';
import { setDeleted } from '../records/batch-rows.ts';
import { endIfAtomic, RecordsChanged, type Batch, type Item } from '../records/batches.ts';
import type { DeleteRecord, FindRecords } from '../records/finders.ts';
import { withDeferredWrites, type DeferredWrites, lockedInOrder, lockBulk } from '../records/deferred-writes.ts';
import { purgeActivitiesOf } from './links.ts';
import { purgeMerged, findByMergedProspect } from '../records/merged-records.ts';
import { blankCompany, encodedCompany, findCompanies, lockCompanyRows, removeCompanies } from './companies.ts';
import { findContacts, lockContactRows, removeContacts } from './contacts.ts';

interface Kind {
  noun: 'contact' | 'company';
  lock: (sql: Transaction, customerId: string, ids: readonly string[]) => Promise<{ id: LockedId }[]>;
  find: FindRecords<{ id: string }>;
  remove: (
    sql: Transaction,
    customerId: string,
    ids: readonly LockedId[],
    deferred: DeferredWrites,
    more: { isPurged: boolean },
  ) => Promise<void>;
}

const deleteRecord =
  (kind: Kind): DeleteRecord =>
  (sql, customerId, id, ifMatch, isPurged = false) =>
    withDeferredWrites(sql, customerId, async (deferred) => {
      const { noun, lock, find, remove } = kind;
      const [record] = await lock(sql, customerId, [id]);
      const isPresent =
        record ?? (isPurged && ifMatch === undefined && (await findDeletedIds(sql, customerId, noun, [id])).has(id));
      if (!isPresent) throw notFound(noun);
      if (record && ifMatch !== undefined) requireMatch(ifMatch, (await find(sql, customerId, [id]))[0]!);
      if (record) await remove(sql, customerId, [record.id], deferred, { isPurged });
      if (isPurged) await purge(sql, customerId, kind, [id], deferred);
    });

const contacts: Kind = { noun: 'contact', lock: lockContactRows, find: findContacts, remove: removeContacts };

const companies: Kind = {
  noun: 'company',
  lock: (sql, customerId, ids) => lockCompanyRows(sql, customerId, ids, 'update'),
  find: findCompanies,
  remove: removeCompanies,
};

export const deleteContact: DeleteRecord = deleteRecord(contacts);

/** Deletes a company. Its contacts and opportunities stay, without a company. */
export const deleteCompany: DeleteRecord = deleteRecord(companies);

const deleteItems =
  (kind: Kind) =>
  async (
    sql: Transaction,
    customerId: string,
    batch: Batch,
    items: readonly Item<object>[],
    deferred: DeferredWrites,
  ): Promise<void> => {
    const { match, isPurged = false } = batch;
    if (isPurged && match === 'id') {
      const absent = items.filter(({ outcome }) => outcome?.status === 'failed' && outcome.error.code === 'not_found');
      const deleted = await findDeletedIds(
        sql,
        customerId,
        kind.noun,
        absent.map(({ value }) => value!),
      );
      for (const item of absent)
        if (deleted.has(item.value!)) item.outcome = { status: 'deleted', id: item.value as LockedId };
    }
    endIfAtomic(batch, items);
    await kind.remove(sql, customerId, setDeleted(items), deferred, { isPurged });
    const ids = items.flatMap(({ outcome }) => (outcome?.status === 'deleted' ? outcome.id : []));
    if (isPurged) await purge(sql, customerId, kind, ids, deferred);
  };

export const deleteContactItems = deleteItems(contacts);
export const deleteCompanyItems = deleteItems(companies);

/**
 * Removes what is kept of deleted records, so that no undo can restore them: their values in the journal, their rows,
 * the activities of contacts, and merges into them.
 * @throws RecordsChanged if an undo has restored one of them meanwhile
 */
async function purge(
  sql: Transaction,
  customerId: string,
  { noun, find }: Kind,
  ids: readonly string[],
  deferred: DeferredWrites,
): Promise<void> {
  await clearValues(sql, customerId, ids);
  await purgeMerged(sql, customerId, ids);
  if (noun === 'company') await blankRows(sql, customerId, ids);
  else await purgeActivitiesOf(sql, customerId, ids, deferred);
  if ((await find(sql, customerId, ids)).length > 0) throw new RecordsChanged();
}

/** Clears the columns of deleted companies. Many records can refer to them, so a worker removes their rows later. */
async function blankRows(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update companies
    set ${sql(encodedCompany(sql, customerId, blankCompany))}, deleted_at = 'epoch'
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
