import { isDeepStrictEqual } from 'node:util';
import type { Transaction } from '../database/db.ts';
import { TimeSlice } from '../event-loop.ts';
import { constant } from '../filters/sql.ts';

/** The columns to write for a record, by column name. */
type Row = Record<string, unknown>;

/** The name of a table to which batches write. */
type Table = 'contacts' | 'companies';

/**
 * SQL expression that converts records to rows of the table. If a record has no value for a column, the column becomes
 * null.
 */
const rowsOf = (sql: Transaction, table: Table, rows: readonly Row[]) =>
  sql`jsonb_populate_recordset(null::${constant(sql, table)}, ${sql.json(rows as never)})`;

/** Maximum number of records that one statement writes. */
const rowsAtOnce = 250;

/**
 * Writes records in parts. While the database writes one part, prepares the rows of the next part. Other work of the
 * event loop can run in between.
 * @param rowOf returns a new object with the columns to write for a record
 * @returns the results of all calls of `write`, in the order of the records
 */
async function writeInParts<T, Result>(
  records: readonly T[],
  rowOf: (record: T) => Row,
  write: (rows: readonly Row[]) => Promise<Result[]>,
): Promise<Result[]> {
  const results: Result[] = [];
  const slice = new TimeSlice();
  let writing: Promise<Result[]> = Promise.resolve([]);
  for (let i = 0; i < records.length; i += rowsAtOnce) {
    const rows: Row[] = [];
    for (const record of records.slice(i, i + rowsAtOnce)) {
      rows.push(withoutNulls(rowOf(record)));
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

/** Replaces null by undefined in the properties of the given object. JSON then leaves out these properties. */
function withoutNulls(row: Row): Row {
  for (const name in row) if (row[name] === null) row[name] = undefined;
  return row;
}

/**
 * Inserts records, which must all have the same columns. Returns the new ids, in the order of `records`.
 * @param rowOf returns a new object with the columns of a record
 */
export async function insertRows<T>(
  sql: Transaction,
  customerId: string,
  table: Table,
  records: readonly T[],
  rowOf: (record: T) => object,
): Promise<string[]> {
  const inserted = await writeInParts(records, rowOf as (record: T) => Row, (rows) => {
    const columns = constant(sql, Object.keys(rows[0]!).join(', '));
    return sql<{ id: string }[]>`
      insert into ${constant(sql, table)} (customer_id, ${columns})
      select ${customerId}, ${columns}
      from ${rowsOf(sql, table, rows)} with ordinality given
      order by given.ordinality
      returning id`;
  });
  // The database creates ascending ids within a transaction.
  return inserted.map(({ id }) => id).toSorted();
}

/**
 * Updates records, and sets their `updated_at`. All records must have the same columns, and the caller must have locked
 * them.
 * @param rowOf returns a new object with the id of a record and the columns to write
 */
export async function updateRows<T>(
  sql: Transaction,
  customerId: string,
  table: Table,
  records: readonly T[],
  rowOf: (record: T) => object & { id: string },
): Promise<void> {
  await writeInParts(records, rowOf as unknown as (record: T) => Row, (rows) => {
    const columns = Object.keys(rows[0]!).filter((name) => name !== 'id');
    const assignments = constant(sql, columns.map((name) => `${name} = given.${name}`).join(', '));
    return sql`
      update ${constant(sql, table)} r
      set ${assignments}, updated_at = (select clock_timestamp())
      from ${rowsOf(sql, table, rows)} given
      where r.customer_id = ${customerId}
        and r.id = given.id`;
  });
}

/** Returns true if every value in `columns` equals the value of the same column in `stored`. */
export const isUnchanged = (stored: Row, columns: Row): boolean =>
  Object.keys(columns).every((name) => isSame(stored[name], columns[name]));

/** Returns true if a new value equals the stored value of the column. */
const isSame = (stored: unknown, value: unknown): boolean =>
  isDeepStrictEqual(stored, value) ||
  // The database stores objects as JSON, which has no negative zero.
  (typeof value === 'object' && value !== null && isDeepStrictEqual(stored, JSON.parse(JSON.stringify(value))));

/** Returns a copy of an object without the property `member`. */
export function without<T extends object, K extends PropertyKey>(member: K, given: T): Omit<T, K> {
  const { [member as unknown as keyof T]: _, ...others } = given;
  return others as Omit<T, K>;
}
