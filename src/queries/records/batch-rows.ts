import type { Locked, LockedId, Transaction } from '../../database/db.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import { DomainError } from '../../errors.ts';
import { constant, type Fragment } from '../../filters/sql.ts';
import { isSame } from '../events/changes.ts';
import type { BatchTable } from './batch-matches.ts';
import { alive, bodyOf, fail, lacksRequired, type Batch, type Item } from './batches.ts';
import type { LastWrites } from './last-writes.ts';
import type { BatchKind } from '../../schemas/batches.ts';

type Row = Record<string, unknown>;

/** A table to which batches write rows of the type `R`. */
export interface WrittenTable<R extends object> {
  name: BatchTable;
  /** All columns that a batch writes. Every row has a value or null in each of them. */
  columns: readonly (keyof R & string)[];
  /** Those of them that an update does not set to the given value: `alsoSet` has their assignments. */
  setApart?: readonly string[];
  /** Further assignments of an update of the record `r`; `given` has the values. */
  alsoSet?: (sql: Transaction, customerId: string) => Fragment;
}

const rowsOf = (sql: Transaction, table: string, rows: readonly Row[]) =>
  sql`jsonb_populate_recordset(null::${constant(sql, table)}, ${sql.json(rows as never)})`;

const rowsAtOnce = 250;

/**
 * Writes records in parts. While the database writes one part, prepares the rows of the next part. Other work of the
 * event loop can run in between.
 * @param rowOf returns a new object with the columns to write for a record
 * @returns the results of all calls of `write`, in the order of the records
 */
async function writeInParts<T, Result>(
  records: readonly T[],
  columns: readonly string[],
  rowOf: (record: T) => Row,
  write: (rows: readonly Row[]) => Promise<Result[]>,
): Promise<Result[]> {
  const results: Result[] = [];
  const slice = new TimeSlice();
  let writing: Promise<Result[]> = Promise.resolve([]);
  for (let i = 0; i < records.length; i += rowsAtOnce) {
    const rows: Row[] = [];
    for (const record of records.slice(i, i + rowsAtOnce)) {
      rows.push(withoutNulls(rowOf(record), columns));
      if (slice.isOver) await slice.pause();
    }
    results.push(...(await writing));
    writing = write(rows);
    // It may fail while nobody waits for it. It is awaited later.
    writing.catch(() => undefined);
    // Without a pause the statement would be sent only after the next records are prepared.
    await slice.pause();
  }
  return [...results, ...(await writing)];
}

/**
 * Replaces null by undefined in the properties of the given object. JSON then leaves out these properties, and the
 * database reads null.
 * @throws Error if a column is missing, or if there are others. The value would be lost without this check.
 */
function withoutNulls(row: Row, columns: readonly string[]): Row {
  for (const name of columns) {
    if (row[name] === undefined) throw new Error(`A row has no value for the column ${name}`);
    if (row[name] === null) row[name] = undefined;
  }
  if (Object.keys(row).length !== columns.length) throw new Error('A row has more columns than its table');
  return row;
}

/**
 * Inserts records. Returns the new ids, in the order of `records`.
 * @param rowOf returns a new object with the columns of a record
 */
export async function insertRows<T, R extends object>(
  sql: Transaction,
  customerId: string,
  table: WrittenTable<R>,
  records: readonly T[],
  rowOf: (record: T) => R,
): Promise<LockedId[]> {
  const columns = constant(sql, table.columns.join(', '));
  const inserted = await writeInParts(
    records,
    table.columns,
    (record) => rowOf(record) as Row,
    (rows) => sql<{ id: LockedId }[]>`
      insert into ${constant(sql, table.name)} (customer_id, ${columns})
      select ${customerId}, ${columns}
      from ${rowsOf(sql, table.name, rows)} with ordinality given
      order by given.ordinality
      returning id`,
  );
  // The database creates ascending ids within a transaction.
  return inserted.map(({ id }) => id).toSorted();
}

/**
 * Updates records, and sets their `updated_at`.
 * @param rowOf returns a new object with the id of a record and its columns
 */
export async function updateRows<T, R extends object>(
  sql: Transaction,
  customerId: string,
  table: WrittenTable<R>,
  records: readonly T[],
  rowOf: (record: T) => Locked<R>,
): Promise<void> {
  const { setApart = [], alsoSet } = table;
  const names = table.columns.filter((name) => !setApart.includes(name));
  const assignments = constant(sql, names.map((name) => `${name} = given.${name}`).join(', '));
  await writeInParts(
    records,
    ['id', ...table.columns],
    (record) => rowOf(record) as Row,
    (rows) => sql`
      update ${constant(sql, table.name)} r
      set ${assignments}, ${alsoSet ? sql`${alsoSet(sql, customerId)},` : sql``} updated_at = (select clock_timestamp())
      from ${rowsOf(sql, table.name, rows)} given
      where r.customer_id = ${customerId}
        and r.id = any(${rows.map((row) => row['id'] as string)}::uuid[])
        and r.id = given.id`,
  );
}

/**
 * Computes the columns of one item. The item fails if it creates a record but lacks a required field, or if `patched`
 * throws a `DomainError`.
 * @param patched returns the columns after the body is applied to those of the stored record, or of a new one
 */
export function setColumns<R extends object>(
  { kind }: { kind: BatchKind },
  batch: Batch,
  item: Item<R>,
  patched: (body: Item<R>['body'], stored: R | undefined) => R,
): void {
  const { stored, body } = item;
  const lacks = stored ? undefined : lacksRequired(kind, body);
  if (lacks) return fail(item, lacks);
  try {
    item.columns = stored
      ? patched(without(batch.match, bodyOf(batch, item)), without('id', stored) as unknown as R)
      : patched(body, undefined);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    fail(item, error);
  }
}

/**
 * Inserts or updates the record of each item that has no result yet, and sets the results.
 * @param rowOf returns a new object with all columns to write
 */
export async function writeItems<R, W extends object>(
  sql: Transaction,
  customerId: string,
  table: WrittenTable<W>,
  items: readonly Item<R>[],
  rowOf: (columns: R) => W,
): Promise<{ created: Item<R>[]; changed: Item<R>[] }> {
  const { created = [], changed = [] } = Object.groupBy(alive(items), ({ stored }) => (stored ? 'changed' : 'created'));
  const newIds = await insertRows(sql, customerId, table, created, ({ columns }) => rowOf(columns!));
  await updateRows(sql, customerId, table, changed, ({ stored, columns }) => ({ id: stored!.id, ...rowOf(columns!) }));
  for (const [i, item] of created.entries()) item.outcome = { status: 'created', id: newIds[i]! };
  for (const item of changed) item.outcome = { status: 'updated', id: item.stored!.id };
  return { created, changed };
}

/** Sets the result of each item whose record already has the item's columns to `unchanged`. */
export function setUnchanged<R extends object>(items: readonly Item<R>[]): void {
  for (const item of alive(items))
    if (item.stored && isUnchanged(item.stored, item.columns!))
      item.outcome = { status: 'unchanged', id: item.stored.id };
}

/** Adds the events of written records to the last writes. */
export function addEvents(
  last: LastWrites,
  noun: 'company' | 'product' | 'opportunity' | 'activity',
  { created, changed }: Record<'created' | 'changed', readonly Item<{ external_id: string | null }>[]>,
): void {
  for (const item of created) last.created(noun, toldOf(item));
  for (const item of changed) last.updated(noun, toldOf(item), item.stored!, item.columns!);
}

/** Sets the result of each item that has none to `deleted`. Returns the ids of the records. */
export const setDeleted = (items: readonly Item<object>[]): LockedId[] =>
  alive(items).map((item) => {
    const { id } = item.stored!;
    item.outcome = { status: 'deleted', id };
    return id;
  });

/** Returns what the event of a written record tells of it. */
export const toldOf = ({ outcome, columns }: Item<{ external_id: string | null }>) => ({
  id: (outcome as { id: LockedId }).id,
  external_id: columns!.external_id,
});

export const isUnchanged = (stored: object, columns: object): boolean =>
  Object.entries(columns).every(([name, value]) => isSame((stored as Row)[name], value));

function without<T extends object, K extends PropertyKey>(member: K, given: T): Omit<T, K> {
  const { [member as unknown as keyof T]: _, ...others } = given;
  return others as Omit<T, K>;
}
