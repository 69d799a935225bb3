import type { Database, Locked, Queryable, Transaction } from '../../database/db.ts';
import {
  activityBatches,
  companyBatches,
  contactBatches,
  opportunityBatches,
  productBatches,
  type BatchKind,
  type MatchField,
} from '../../schemas/batches.ts';
import { isLive } from '../../filters/live.ts';
import { fold } from '../../text/fold.ts';
import {
  alive,
  fail,
  noRecord,
  openItems,
  RecordsChanged,
  sameRecord,
  severalRecords,
  type Batch,
  type Item,
  type ReadOutcome,
} from './batches.ts';
import type { FindRecords } from './finders.ts';
import { findByMergedExternalId } from './merged-records.ts';

/**
 * How values of a match field are compared. A match field is the field that identifies the records in a batch: `id`,
 * `external_id`, `work_email` or `domain`.
 */
interface Comparison {
  /**
   * Converts a value to its comparable form, such as lower case. Two values are equal if their comparable forms are
   * equal.
   */
  canonical: (value: string) => string;
  column: string;
  type: 'uuid' | 'text';
}

const comparisons: Record<MatchField, Comparison> = {
  id: { canonical: (id) => id, column: 'r.id', type: 'uuid' },
  external_id: { canonical: (value) => value, column: 'r.external_id', type: 'text' },
  // Validation has made it the stored form.
  domain: { canonical: (value) => value, column: 'r.domain', type: 'text' },
  work_email: {
    canonical: fold,
    column: `(r.folded ->> 'work_email') collate "C"`,
    type: 'text',
  },
};

/** Returns a function that converts values of a match field to their comparable form, such as lower case. */
export const canonicalOf = (match: MatchField): ((value: string) => string) => comparisons[match].canonical;

export type BatchTable = 'contacts' | 'companies' | 'products' | 'opportunities' | 'activities';

export interface RecordTable {
  kind: BatchKind;
  table: BatchTable;
  /** SQL condition: the record `r` is visible in the API. */
  visible: string;
}

export interface BatchRecords<Row extends object, Shown extends { id: string }> extends RecordTable {
  lock: (sql: Transaction, customerId: string, ids: string[], operation: Batch['operation']) => Promise<Locked<Row>[]>;
  find: FindRecords<Shown>;
}

export const contactTable: RecordTable = { kind: contactBatches, table: 'contacts', visible: 'true' };
export const companyTable: RecordTable = { kind: companyBatches, table: 'companies', visible: isLive('r') };
export const productTable: RecordTable = { kind: productBatches, table: 'products', visible: isLive('r') };
export const opportunityTable: RecordTable = { kind: opportunityBatches, table: 'opportunities', visible: 'true' };
export const activityTable: RecordTable = {
  kind: activityBatches,
  table: 'activities',
  visible: 'r.hidden_at is null',
};

const maxMatchingIds = 10;

/**
 * Searches the customer's records for each of the given values. Returns a map from each value to the ids of its
 * records: at most 10 ids, the oldest record first.
 */
async function findIds(
  sql: Queryable,
  customerId: string,
  { table, visible }: RecordTable,
  match: MatchField,
  values: readonly string[],
): Promise<Map<string, string[]>> {
  const { column, type } = comparisons[match];
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
  const found = new Map<string, string[]>();
  for (const { value, id } of rows) {
    const ids = found.get(value);
    if (ids) ids.push(id);
    else found.set(value, [id]);
  }
  return found;
}

/** Returns the ids of the records with these external ids, also of those into which they were merged, by external id. */
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
 * Finds the record that each item of a batch identifies. An item fails if it identifies several records, or the record
 * of an earlier item. An item that identifies no record fails too, unless `creates` is true.
 * @returns a map from match value (such as an external id) to record id
 */
export const matchItems = async (...given: Parameters<typeof matchAll>): Promise<Map<string, string>> =>
  (await matchAll(...given)).ids;

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
  const named = alive(items).filter(({ value }) => value !== undefined);
  if (named.length === 0) return { ids: new Map(), merged: new Set() };
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
 * Finds and locks the record that each item of a batch identifies, and saves the record in `item.stored`. An item fails
 * if it identifies several records, or if it identifies none and the batch creates none.
 * @throws RecordsChanged if a record was changed so that it no longer matches, or was deleted, before it was locked
 */
export async function lockMatching<Row extends object>(
  sql: Transaction,
  customerId: string,
  records: BatchRecords<Row, { id: string }>,
  { operation, match }: Pick<Batch, 'operation' | 'match'>,
  items: readonly Item<Row>[],
): Promise<void> {
  const { ids, merged } = await matchAll(sql, customerId, records, { match, creates: operation === 'upsert' }, items);
  if (ids.size === 0) return;
  const locked = await records.lock(sql, customerId, [...ids.values()], operation);
  const rows = new Map<string, Locked<Row>>(locked.map((row) => [row.id, row]));
  const { canonical } = comparisons[match];
  for (const item of alive(items)) {
    const id = item.value === undefined ? undefined : ids.get(item.value);
    if (id === undefined) continue;
    const row = rows.get(id);
    const isNamed = row && (merged.has(item.value!) || canonical(row[match as keyof Row] as string) === item.value);
    if (!isNamed) throw new RecordsChanged();
    item.stored = row;
  }
}

/** Runs `work` in a read-only transaction in which all statements see the same snapshot. */
export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

/**
 * Reads the records that the items identify. Returns one result for each item. Call it in a `snapshot`: between two
 * statements, others could give a value to another record, or merge the record.
 */
export async function readBatch<Shown extends { id: string }>(
  sql: Transaction,
  customerId: string,
  records: BatchRecords<object, Shown>,
  { match, items: bodies }: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Shown>[]> {
  const items = openItems<never>({ operation: 'read', match, items: bodies }, canonicalOf(match));
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
