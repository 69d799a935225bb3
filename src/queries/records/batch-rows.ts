import type { Database, Locked, Queryable, Transaction, LockedId } from '../../database/db.ts';
import {
  activityBatches,
  companyBatches,
  contactBatches,
  opportunityBatches,
  productBatches,
} from '../../schemas/batches.ts';
import type { BatchKind, MatchField } from '../../schemas/batches.ts';
import { isLive, constant, type Fragment } from '../../filters/sql.ts';
import {
  pendingItems,
  fail,
  noRecord,
  openItems,
  sameRecord,
  severalRecords,
  canonicalOf,
  lacksRequired,
} from './batches.ts';
import type { Batch, Item, ReadOutcome, RecordTable } from './batches.ts';
import { valuesBy, type FindRecords } from './finders.ts';
import { findByMergedExternalId } from './merged-records.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import { DomainError, RecordsChanged } from '../../errors.ts';
import { isSame } from './journal.ts';
import type { DeferredWrites } from './deferred-writes.ts';

const matchColumns: Record<MatchField, { column: string; type: 'uuid' | 'text' }> = {
  id: { column: 'r.id', type: 'uuid' },
  external_id: { column: 'r.external_id', type: 'text' },
  domain: { column: 'r.domain', type: 'text' },
  work_email: { column: `(r.folded ->> 'work_email') collate "C"`, type: 'text' },
};

export interface BatchRecords<Row extends object, Shown extends { id: string }> extends RecordTable {
  lock: (sql: Transaction, customerId: string, ids: string[], operation: Batch['operation']) => Promise<Locked<Row>[]>;
  find: FindRecords<Shown>;
}

export const contactTable = { kind: contactBatches, table: 'contacts', visible: 'true' } as const satisfies RecordTable;
export const companyTable = {
  kind: companyBatches,
  table: 'companies',
  visible: isLive('r'),
} as const satisfies RecordTable;
export const productTable: RecordTable = { kind: productBatches, table: 'products', visible: isLive('r') };
export const opportunityTable: RecordTable = { kind: opportunityBatches, table: 'opportunities', visible: 'true' };
export const activityTable: RecordTable = {
  kind: activityBatches,
  table: 'activities',
  visible: 'r.hidden_at is null',
};

const maxMatchingIds = 10;

async function findIds(
  sql: Queryable,
  customerId: string,
  { table, visible }: RecordTable,
  match: MatchField,
  values: readonly string[],
): Promise<Map<string, string[]>> {
  const { column, type } = matchColumns[match];
  const rows = await sql.unsafe<{ value: string; id: string }[]>(
    `
    select wanted.value::text, matching.id
    from unnest($2::${type}[]) as wanted (value)
    cross join lateral (
      select r.id
      from ${table} r
      where r.customer_id = $1::uuid
        and ${column} = wanted.value
        and ${visible}
      order by r.id
      limit ${maxMatchingIds}
    ) matching
    order by matching.id`,
    [customerId, values as string[]],
    { prepare: true },
  );
  return valuesBy(rows, 'value', ({ id }) => id);
}

/**
 * Returns the ids of the records with these external ids, by external id. Also finds the records into which a record
 * with such an id was merged.
 */
export async function findByExternalIds(
  sql: Queryable,
  customerId: string,
  records: RecordTable,
  externalIds: readonly string[],
): Promise<Map<string, string>> {
  if (externalIds.length === 0) return new Map();
  const found = await findIds(sql, customerId, records, 'external_id', externalIds);
  const absent = externalIds.filter((one) => !found.has(one));
  const successors = await findByMergedExternalId(sql, customerId, records, absent);
  return new Map([
    ...Array.from(found, ([value, [id]]) => [value, id!] as const),
    ...Array.from(successors, ([value, { id }]) => [value, id] as const),
  ]);
}

/**
 * Finds the record that each item of a batch identifies. An item fails if it identifies several records, the record of
 * an earlier item, or (unless `creates`) no record.
 * @returns record ids by match value (such as an external id)
 */
export const matchItems = async (...given: Parameters<typeof matchAll>): Promise<Map<string, string>> =>
  (await matchAll(...given)).ids;

const none: ReadonlySet<string> = new Set();

interface Matched {
  ids: Map<string, string>;
  merged: ReadonlySet<string>;
}

async function matchAll(
  sql: Queryable,
  customerId: string,
  records: RecordTable,
  { match, creates }: { match: MatchField; creates: boolean },
  items: readonly Item<unknown>[],
): Promise<Matched> {
  const named = pendingItems(items).filter(({ value }) => value !== undefined);
  if (named.length === 0) return { ids: new Map(), merged: none };
  const values = named.map(({ value }) => value!);
  const found = await findIds(sql, customerId, records, match, values);
  const absent = named.flatMap(({ value }) => (match === 'external_id' && !found.has(value!) ? [value!] : []));
  const successors = await findByMergedExternalId(sql, customerId, records, absent);
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const item of named) {
    const [id = successors.get(item.value!)?.id, ...more] = found.get(item.value!) ?? [];
    if (more.length > 0) fail(item, severalRecords(records.kind, match, [id!, ...more]));
    else if (id === undefined) {
      if (!creates) fail(item, noRecord(records.kind, match));
    } else if (taken.has(id)) fail(item, sameRecord(records.kind, match));
    else {
      ids.set(item.value!, id);
      taken.add(id);
    }
  }
  return { ids, merged: new Set(successors.keys()) };
}

/**
 * Finds and locks the record that each item of a batch identifies, and stores it in `item.stored`. An item fails if it
 * identifies several records, or none in a batch that creates none.
 * @throws RecordsChanged if a record was deleted, or no longer matches, before it was locked
 */
export async function lockMatching<Row extends object>(
  sql: Transaction,
  customerId: string,
  records: BatchRecords<Row, { id: string }>,
  { operation, match }: Pick<Batch, 'operation' | 'match'>,
  items: readonly Item<Row>[],
): Promise<void> {
  // Records are locked by id, so an id needs no search before.
  const { ids, merged } =
    match === 'id'
      ? {
          ids: new Map(pendingItems(items).flatMap(({ value: id }) => (id === undefined ? [] : [[id, id]]))),
          merged: none,
        }
      : await matchAll(sql, customerId, records, { match, creates: operation === 'upsert' }, items);
  if (ids.size === 0) return;
  const locked = await records.lock(sql, customerId, [...ids.values()], operation);
  const rows = new Map<string, Locked<Row>>(locked.map((row) => [row.id, row]));
  const canonical = canonicalOf(match);
  for (const item of pendingItems(items)) {
    const id = item.value === undefined ? undefined : ids.get(item.value);
    if (id === undefined) continue;
    const row = rows.get(id);
    if (!row && match === 'id') {
      fail(item, noRecord(records.kind, match));
      continue;
    }
    const isNamed = row && (merged.has(item.value!) || canonical(row[match as keyof Row] as string) === item.value);
    if (!isNamed) throw new RecordsChanged();
    item.stored = row;
  }
}

export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

/**
 * Reads the record that each item identifies. Call it in a `snapshot`, because its statements must see the same data.
 */
export async function readBatch<Shown extends { id: string }>(
  sql: Transaction,
  customerId: string,
  records: BatchRecords<object, Shown>,
  { match, items: bodies }: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Shown>[]> {
  const items = openItems<never>({ operation: 'read', match, items: bodies });
  const matched = await matchItems(sql, customerId, records, { match, creates: false }, items);
  const found = await records.find(sql, customerId, [...matched.values()]);
  const byId = new Map(found.map((record) => [record.id, record]));
  return items.map(({ value, outcome }) => {
    if (outcome?.status === 'failed') return outcome;
    const record = byId.get(matched.get(value!)!);
    return record
      ? { status: 'found', id: record.id, record }
      : { status: 'failed', error: noRecord(records.kind, match) };
  });
}

type Row = Record<string, unknown>;

export interface WrittenTable<R extends object> {
  name: RecordTable['table'];
  columns: readonly (keyof R & string)[];
  /**
   * Columns to which an update does not assign the given value: `computedAssignments` sets them, or they stay
   * unchanged.
   */
  unassigned?: readonly string[];
  keepsUpdatedAt?: boolean;
  /** Returns further SQL assignments for an update of the record `r`. `given` has the new values. */
  computedAssignments?: (sql: Transaction, customerId: string) => Fragment;
}

const rowsOf = (sql: Transaction, table: string, rows: readonly Row[]) =>
  sql`jsonb_populate_recordset(null::${constant(sql, table)}, ${sql.json(rows as never)})`;

const rowsAtOnce = 250;

/**
 * Writes records in parts. While the database writes one part, prepares the rows of the next, with pauses for other
 * work.
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
    if (i + rowsAtOnce < records.length) await slice.pause();
  }
  return [...results, ...(await writing)];
}

/**
 * Replaces null by undefined in a row. JSON then leaves out these properties, and the database reads null.
 * @throws Error if a column is missing or unknown
 */
function withoutNulls(row: Row, columns: readonly string[]): Row {
  for (const name of columns) {
    if (row[name] === undefined) throw new Error(`A row has no value for the column ${name}`);
    if (row[name] === null) row[name] = undefined;
  }
  if (Object.keys(row).length !== columns.length) throw new Error('A row has more columns than its table');
  return row;
}

/** Returns the text of an insert of records. It has no fragments, because these would cost a single create much. */
const insertOf = ({ name, columns }: WrittenTable<never>): string => `
  insert into ${name} (customer_id, ${columns.join(', ')})
  select $1, ${columns.join(', ')}
  from jsonb_populate_recordset(null::${name}, $2) with ordinality given
  order by given.ordinality
  returning id`;

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
  const inserted = await writeInParts(
    records,
    table.columns,
    (record) => rowOf(record) as Row,
    (rows) => sql.unsafe<{ id: LockedId }[]>(insertOf(table), [customerId, sql.json(rows as never)], { prepare: true }),
  );
  // The database creates ascending ids within a transaction.
  return inserted.map(({ id }) => id).toSorted();
}

export async function updateRows<T, R extends object>(
  sql: Transaction,
  customerId: string,
  table: WrittenTable<R>,
  records: readonly T[],
  rowOf: (record: T) => Locked<R>,
): Promise<void> {
  const { unassigned = [], keepsUpdatedAt = false, computedAssignments } = table;
  const names = table.columns.filter((name) => !unassigned.includes(name));
  const assignments = constant(sql, names.map((name) => `${name} = given.${name}`).join(', '));
  await writeInParts(
    records,
    ['id', ...table.columns],
    (record) => rowOf(record) as Row,
    (rows) => sql`
      update ${constant(sql, table.name)} r
      set
        ${assignments},
        ${computedAssignments ? sql`${computedAssignments(sql, customerId)},` : sql``}
        updated_at = ${keepsUpdatedAt ? sql`r.updated_at` : sql`(select clock_timestamp())`}
      from ${rowsOf(sql, table.name, rows)} given
      where r.customer_id = ${customerId}
        and r.id = any(${rows.map((row) => row['id'] as string)}::uuid[])
        and r.id = given.id`,
  );
}

/**
 * Computes the columns of one item. The item fails if it creates a record but lacks a required field, or if `patched`
 * throws a `DomainError`.
 * @param patched applies the body to the columns of the stored record, or of a new one
 */
export function setColumns<R extends object>(
  { kind }: { kind: BatchKind },
  batch: Batch,
  item: Item<R>,
  patched: (body: Item<R>['body'], stored: R | undefined) => R,
): void {
  const { stored, body } = item;
  // The schema of a single create has other required fields, and is already checked.
  const lacks = stored || batch.single ? undefined : lacksRequired(kind, body);
  if (lacks) return fail(item, lacks);
  try {
    item.columns = stored
      ? patched(without(batch.match, batch.fit?.(body, stored) ?? body), without('id', stored) as unknown as R)
      : patched(body, undefined);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    fail(item, error);
  }
}

export async function writeItems<R, W extends object>(
  sql: Transaction,
  customerId: string,
  table: WrittenTable<W>,
  items: readonly Item<R>[],
  rowOf: (columns: R) => W,
): Promise<{ created: Item<R>[]; changed: Item<R>[] }> {
  const { created = [], changed = [] } = Object.groupBy(pendingItems(items), ({ stored }) =>
    stored ? 'changed' : 'created',
  );
  const newIds = await insertRows(sql, customerId, table, created, ({ columns }) => rowOf(columns!));
  await updateRows(sql, customerId, table, changed, ({ stored, columns }) => ({ id: stored!.id, ...rowOf(columns!) }));
  for (const [i, item] of created.entries()) item.outcome = { status: 'created', id: newIds[i]! };
  for (const item of changed) item.outcome = { status: 'updated', id: item.stored!.id };
  return { created, changed };
}

export function setUnchanged<R extends object>(items: readonly Item<R>[]): void {
  for (const item of pendingItems(items))
    if (item.stored && isUnchanged(item.stored, item.columns!))
      item.outcome = { status: 'unchanged', id: item.stored.id };
}

export function addEvents(
  deferred: DeferredWrites,
  noun: BatchKind['noun'],
  { created, changed }: Record<'created' | 'changed', readonly Item<{ external_id: string | null }>[]>,
): void {
  for (const item of created) deferred.created(noun, eventSubjectOf(item));
  for (const item of changed) deferred.updated(noun, eventSubjectOf(item), item.stored!, item.columns!);
}

export const eventSubjectOf = ({ outcome, columns }: Item<{ external_id: string | null }>) => ({
  id: (outcome as { id: LockedId }).id,
  external_id: columns!.external_id,
});

export const isUnchanged = (stored: object, columns: object): boolean =>
  Object.entries(columns).every(([name, value]) => isSame((stored as Row)[name], value));

function without<T extends object, K extends PropertyKey>(member: K, given: T): Omit<T, K> {
  const { [member as unknown as keyof T]: _, ...others } = given;
  return others as Omit<T, K>;
}
