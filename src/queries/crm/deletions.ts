import type { LockedId, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { requireMatch } from '../../text/etag.ts';
import { clearValues, findDeletedIds } from '../events/purge.ts';
import { setDeleted } from '../records/batch-rows.ts';
import { endIfAtomic, RecordsChanged, type Batch, type Item } from '../records/batches.ts';
import type { DeleteRecord, FindRecords } from '../records/finders.ts';
import { withLastWrites, type LastWrites } from '../records/last-writes.ts';
import { purgeActivitiesOf } from '../memberships/activity-links.ts';
import { purgeMerged } from '../records/merged-records.ts';
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
    last: LastWrites,
    more: { isPurged: boolean },
  ) => Promise<void>;
}

const deleteRecord =
  (kind: Kind): DeleteRecord =>
  (sql, customerId, id, ifMatch, isPurged = false) =>
    withLastWrites(sql, customerId, async (last) => {
      const { noun, lock, find, remove } = kind;
      const [record] = await lock(sql, customerId, [id]);
      const isPresent =
        record ?? (isPurged && ifMatch === undefined && (await findDeletedIds(sql, customerId, noun, [id])).has(id));
      if (!isPresent) throw notFound(noun);
      if (record && ifMatch !== undefined) requireMatch(ifMatch, (await find(sql, customerId, [id]))[0]!);
      if (record) await remove(sql, customerId, [record.id], last, { isPurged });
      if (isPurged) await purge(sql, customerId, kind, [id], last);
    });

const contacts: Kind = { noun: 'contact', lock: lockContactRows, find: findContacts, remove: removeContacts };

const companies: Kind = {
  noun: 'company',
  lock: (sql, customerId, ids) => lockCompanyRows(sql, customerId, ids, 'update'),
  find: findCompanies,
  remove: removeCompanies,
};

/** Deletes a contact and removes it from its lists and opportunities. */
export const deleteContact: DeleteRecord = deleteRecord(contacts);

/** Deletes a company. Its contacts and opportunities stay, without a company. */
export const deleteCompany: DeleteRecord = deleteRecord(companies);

const deleteItems =
  (kind: Kind) =>
  /** Deletes the records that the items of a batch name, which are locked. */
  async (
    sql: Transaction,
    customerId: string,
    batch: Batch,
    items: readonly Item<object>[],
    last: LastWrites,
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
    await kind.remove(sql, customerId, setDeleted(items), last, { isPurged });
    const ids = items.flatMap(({ outcome }) => (outcome?.status === 'deleted' ? outcome.id : []));
    if (isPurged) await purge(sql, customerId, kind, ids, last);
  };

export const deleteContactItems = deleteItems(contacts);
export const deleteCompanyItems = deleteItems(companies);

/**
 * Removes for good what is kept of deleted records: their values in the journal, their rows, the activities of
 * contacts, and which records were merged into them. No undo restores them.
 * @throws RecordsChanged if an undo has restored one meanwhile
 */
async function purge(
  sql: Transaction,
  customerId: string,
  { noun, find }: Kind,
  ids: readonly string[],
  last: LastWrites,
): Promise<void> {
  await clearValues(sql, customerId, ids);
  await purgeMerged(sql, customerId, ids);
  if (noun === 'company') await blankRows(sql, customerId, ids);
  else await purgeActivitiesOf(sql, customerId, ids, last);
  if ((await find(sql, customerId, ids)).length > 0) throw new RecordsChanged();
}

/**
 * Rows of deleted companies may have many references. They count as deleted long ago, so that a worker removes them soon.
 */
async function blankRows(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update companies
    set ${sql(encodedCompany(sql, customerId, blankCompany))}, deleted_at = 'epoch'
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])
      and deleted_at is not null`;
}
