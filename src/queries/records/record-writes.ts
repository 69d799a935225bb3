import type { Locked, Transaction } from '../../database/db.ts';
import { type DomainError, notFound } from '../../errors.ts';
import { referringMembers, type BatchKind } from '../../schemas/batches.ts';
import { addEvents, lockMatching, matchItems, readBatch, setColumns, setUnchanged, writeItems } from './batch-rows.ts';
import type { BatchRecords, WrittenTable } from './batch-rows.ts';
import { endIfAtomic, fail, openItems, outcomesOf, pendingItems, requireSingleMatch, withRepeats } from './batches.ts';
import type { Batch, Item, Outcome, ReadOutcome, WriteBatch } from './batches.ts';
import { lockBulk, withDeferredWrites, withoutDeferredWrites, type DeferredWrites } from './deferred-writes.ts';
import type { CreateRecord, DeleteRecord, UpdateRecord } from './finders.ts';
import { findDeletedIds } from './journal.ts';
import { assignExternalIds, withReferredIds } from './references.ts';

export interface Writing<Row> {
  sql: Transaction;
  /** The transaction, of which `sql` is a savepoint unless the batch is a single write. It knows the write's origin. */
  transaction: Transaction;
  customerId: string;
  batch: Batch;
  items: readonly Item<Row>[];
  deferred: DeferredWrites;
}

interface Plan<Row> {
  errorOf?: (item: Item<Row>) => DomainError | undefined;
  patched: (body: Item<Row>['body'], stored: Row | undefined, item: Item<Row>) => Row;
  write: () => Promise<void>;
}

interface WrittenRecords<Row extends object, Shown extends { id: string }> extends BatchRecords<Row, Shown> {
  /**
   * Prepares the creation or update of records, before these are locked. Locks the records to which the items refer
   * (see the order of locks in deferred-writes.ts).
   */
  prepare: (writing: Writing<Row>) => Promise<Plan<Row>>;
  remove: (writing: Writing<Row>, removed: readonly Locked<Row>[]) => Promise<void>;
}

export interface RecordWrites<Shown = object, Create = never, Patch = never> {
  write: WriteBatch;
  /** Locks all that a batch will lock, for a caller who writes the batch in parts. */
  lock: (sql: Transaction, customerId: string, batch: Batch) => Promise<void>;
  read: (sql: Transaction, customerId: string, batch: Pick<Batch, 'match' | 'items'>) => Promise<ReadOutcome<Shown>[]>;
  create: CreateRecord<Create>;
  update: UpdateRecord<Patch>;
  remove: DeleteRecord;
}

/**
 * Returns the functions that write and read one kind of record.
 *
 * `write` writes a batch, with the same result as one call for each item. Only if two items identify the same record,
 * the later item fails. Call it before the transaction takes other locks. It throws the error of the first failed item
 * if the batch is atomic, and `unavailable` if other requests keep changing the same records. `create`, `update` and
 * `remove` write a batch of one item.
 */
export function recordWrites<
  Row extends { external_id: string | null },
  Shown extends { id: string },
  Create extends object,
  Patch extends object,
>(records: WrittenRecords<Row, Shown>): RecordWrites<Shown, Create, Patch> {
  const { kind } = records;
  const refers = Object.keys(kind.create.properties).some((name) => Object.hasOwn(referringMembers, name));

  const write: WriteBatch = async (sql, customerId, batch, deferred) => {
    const writeItems = async (attempt: Transaction, own: DeferredWrites): Promise<Outcome[]> => {
      const given = refers ? await withReferredIds(attempt, customerId, batch) : batch.items;
      const items = openItems<Row>({ ...batch, items: given });
      const writing = { sql: attempt, transaction: sql, customerId, batch, items, deferred: own };
      await (batch.operation === 'delete' ? deleteAll(writing) : writeAll(writing));
      return outcomesOf(items);
    };
    // The transaction of a single write runs again as a whole. A savepoint would cost a tenth of the write.
    if (batch.single) return writeItems(sql, deferred);
    await lockBulk(sql, customerId);
    return withRepeats(sql, deferred, writeItems);
  };

  async function writeAll(writing: Writing<Row>): Promise<void> {
    const { sql, customerId, batch, items } = writing;
    const plan = await records.prepare(writing);
    await lockMatching(sql, customerId, records, batch, items);
    const setAll = (isStored: boolean): void => {
      for (const item of pendingItems(items))
        if (Boolean(item.stored) === isStored)
          setColumns(records, batch, item, (body, stored) => plan.patched(body, stored, item));
    };
    // Only the body decides whether that of a new record is valid. An invalid body comes before unknown references.
    setAll(false);
    for (const item of pendingItems(items)) {
      const error = plan.errorOf?.(item);
      if (error) fail(item, error);
    }
    await requireSingleMatch(batch, items, (ids) => records.find(sql, customerId, ids));
    setAll(true);
    await assignExternalIds(sql, customerId, records, batch, items);
    endIfAtomic(batch, items);
    await plan.write();
  }

  async function deleteAll(writing: Writing<Row>): Promise<void> {
    const { sql, customerId, batch, items } = writing;
    await lockMatching(sql, customerId, records, batch, items);
    await requireSingleMatch(batch, items, (ids) => records.find(sql, customerId, ids));
    const removed = pendingItems(items).map(({ stored }) => stored!);
    for (const item of pendingItems(items)) item.outcome = { status: 'deleted', id: item.stored!.id };
    if (batch.isPurged) await acceptDeleted(writing, kind);
    endIfAtomic(batch, items);
    await records.remove(writing, removed);
  }

  const writeOne = async (
    sql: Transaction,
    customerId: string,
    given: Pick<Batch, 'operation' | 'isPurged'>,
    item: object,
    ifMatch?: string,
  ): Promise<string> => {
    const batch: Batch = { ...given, match: 'id', isAtomic: false, items: [item], single: { ifMatch } };
    const [outcome] = await withDeferredWrites(sql, customerId, (deferred) => write(sql, customerId, batch, deferred));
    if (outcome!.status !== 'failed') return outcome!.id;
    const { error } = outcome!;
    throw error.faults[0]?.path === '/id' ? notFound(kind.noun) : error;
  };

  return {
    write,
    lock: async (sql, customerId, batch) => {
      const items = refers ? await withReferredIds(sql, customerId, batch) : batch.items;
      // Items that name a record which an earlier one has are written later. What they refer to is locked now, too.
      const all = openItems<Row>({ operation: 'create', match: batch.match, items });
      await withoutDeferredWrites((deferred) =>
        records.prepare({ sql, transaction: sql, customerId, batch, items: all, deferred }),
      );
      if (batch.operation === 'create') return;
      const open = openItems<Row>({ ...batch, items });
      const ids = await matchItems(sql, customerId, records, { match: batch.match, creates: true }, open);
      await records.lock(sql, customerId, [...ids.values()], batch.operation);
    },
    read: (sql, customerId, batch) => readBatch(sql, customerId, records, batch),
    create: (sql, customerId, body) => writeOne(sql, customerId, { operation: 'create' }, body),
    update: async (sql, customerId, id, patch, ifMatch) =>
      void (await writeOne(sql, customerId, { operation: 'update' }, { ...patch, id }, ifMatch)),
    remove: async (sql, customerId, id, ifMatch, isPurged = false) =>
      void (await writeOne(sql, customerId, { operation: 'delete', isPurged }, { id }, ifMatch)),
  };
}

async function acceptDeleted<Row>({ sql, customerId, batch, items }: Writing<Row>, { noun }: Pick<BatchKind, 'noun'>) {
  if (batch.match !== 'id' || batch.single?.ifMatch !== undefined) return;
  const absent = items.filter(({ outcome }) => outcome?.status === 'failed' && outcome.error.code === 'not_found');
  const ids = absent.map(({ value }) => value!);
  const deleted = await findDeletedIds(sql, customerId, noun, ids);
  for (const item of absent)
    if (deleted.has(item.value!)) item.outcome = { status: 'deleted', id: item.value } as Outcome;
}

/**
 * Writes the items that change something, and adds the events.
 * @param rowOf returns a new object with the columns to write for a record
 * @returns the number of new records
 */
export async function writeRows<Row extends { external_id: string | null }, W extends object>(
  { sql, customerId, items, deferred }: Writing<Row>,
  noun: BatchKind['noun'],
  table: WrittenTable<W>,
  rowOf: (columns: Row) => W,
): Promise<number> {
  setUnchanged(items);
  const changes = await writeItems(sql, customerId, table, items, rowOf);
  addEvents(deferred, noun, changes);
  return changes.created.length;
}

export function addDeletions(
  deferred: DeferredWrites,
  noun: BatchKind['noun'],
  removed: readonly (object & { id: string; external_id: string | null })[],
): void {
  for (const { id, ...values } of removed) deferred.deleted(noun, { id, external_id: values.external_id }, values);
}
