import type { Transaction, Sql } from '../database/db.ts';
import { companyBatches, contactBatches, type BatchKind, type MatchField } from '../schemas/batches.ts';
import { fold } from '../text/fold.ts';
import { alive, fail, noRecord, RecordsChanged, severalRecords, type Item, type ReadOutcome } from './batches.ts';
import type { LockedValue } from './value-locks.ts';

/** How the values of a match field are compared. */
interface Comparison {
  /** Converts a value to the form in which values are compared. */
  canonical: (value: string) => string;
  /** SQL expression for the value of a record `r` in that form. */
  column: string;
  /** SQL type of the expression. */
  type: 'uuid' | 'text';
  /** The kind of lock for the values; undefined for ids, which nobody can choose. */
  lock?: LockedValue['kind'];
}

const comparisons: Record<MatchField, Comparison> = {
  id: { canonical: (id) => id.toLowerCase(), column: 'r.id', type: 'uuid' },
  external_id: { canonical: (value) => value, column: 'r.external_id', type: 'text', lock: 'external_id' },
  work_email: {
    canonical: fold,
    column: `(r.folded ->> 'work_email') collate "C"`,
    type: 'text',
    lock: 'work_email',
  },
};

/** Returns the form of a match value in which values are compared. */
export const canonicalOf = (match: MatchField): ((value: string) => string) => comparisons[match].canonical;

/** Returns the match values of items as values to lock, so that nobody else creates records with them. */
export function lockedValuesOf(match: MatchField, items: readonly Item<unknown>[]): LockedValue[] {
  const { lock } = comparisons[match];
  return lock === undefined
    ? []
    : alive(items).flatMap(({ value }) => (value === undefined ? [] : [{ kind: lock, value }]));
}

/** Where the records of a kind are stored. */
export interface RecordTable {
  kind: BatchKind;
  table: 'contacts' | 'companies';
  /** SQL condition for the records `r` that callers can see. */
  visible: string;
}

export const contactTable: RecordTable = { kind: contactBatches, table: 'contacts', visible: 'true' };
export const companyTable: RecordTable = { kind: companyBatches, table: 'companies', visible: 'r.deleted_at is null' };

/** Maximum number of ids that the error for an ambiguous value lists. */
const maxMatchingIds = 10;

/** Returns the ids of the records that have each value, at most 10 per value, the oldest first. */
async function findIds(
  sql: Sql | Transaction,
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

/**
 * Finds the records that items name. Items that name none fail, unless they can create one; so do items that name
 * several.
 * @returns the ids of the records by match value
 */
export async function matchItems(
  sql: Sql | Transaction,
  customerId: string,
  records: RecordTable,
  { match, creates }: { match: MatchField; creates: boolean },
  items: readonly Item<unknown>[],
): Promise<Map<string, string>> {
  const named = alive(items).filter(({ value }) => value !== undefined);
  if (named.length === 0) return new Map();
  const found = await findIds(
    sql,
    customerId,
    records,
    match,
    named.map(({ value }) => value!),
  );
  const matched = new Map<string, string>();
  for (const item of named) {
    const [id, ...more] = found.get(item.value!) ?? [];
    if (more.length > 0) fail(item, severalRecords(records.kind, match, [id!, ...more]));
    else if (id !== undefined) matched.set(item.value!, id);
    else if (!creates) fail(item, noRecord(records.kind, match));
  }
  return matched;
}

/**
 * Finds and locks the records that items name, and stores their columns in the items. Items that name none fail, unless
 * they can create one; so do items that name several.
 * @param lock locks records by id, and returns those that exist
 * @throws RecordsChanged if a record got another value or was deleted before it was locked
 */
export async function lockMatching<Row extends object>(
  sql: Transaction,
  customerId: string,
  records: RecordTable,
  how: { match: MatchField; creates: boolean; lock: (ids: string[]) => Promise<(Row & { id: string })[]> },
  items: readonly Item<Row>[],
): Promise<void> {
  const matched = await matchItems(sql, customerId, records, how, items);
  if (matched.size === 0) return;
  const rows = new Map((await how.lock([...matched.values()])).map((row) => [row.id, row]));
  const { canonical } = comparisons[how.match];
  for (const item of alive(items)) {
    const id = item.value === undefined ? undefined : matched.get(item.value);
    if (id === undefined) continue;
    const row = rows.get(id);
    if (!row || canonical(row[how.match as keyof Row] as string) !== item.value) throw new RecordsChanged();
    item.stored = row;
  }
}

/**
 * Returns the outcome of each item of a batch that reads records.
 * @param matched the ids of the records by match value
 * @param records the records with these ids that still exist
 */
export function readMatched<Shown extends { id: string }>(
  { kind }: RecordTable,
  match: MatchField,
  items: readonly Item<unknown>[],
  matched: ReadonlyMap<string, string>,
  records: readonly Shown[],
): ReadOutcome<Shown>[] {
  const byId = new Map(records.map((record) => [record.id, record]));
  return items.map(({ value, outcome }) => {
    if (outcome?.status === 'failed') return outcome;
    const record = byId.get(matched.get(value!)!);
    return record ? { status: 'found', id: record.id, record } : { status: 'failed', error: noRecord(kind, match) };
  });
}
