import { isDeepStrictEqual } from 'node:util';
import type { Transaction } from '../database/db.ts';
import { constant } from '../filters/sql.ts';

/** A record as columns to write. */
type Row = Record<string, unknown>;

/** A table that batches write. */
type Table = 'contacts' | 'companies';

/** SQL expression: converts records to rows of the table. A column that a record does not have becomes null. */
const rowsOf = (sql: Transaction, table: Table, rows: readonly Row[]) =>
  sql`jsonb_populate_recordset(null::${constant(sql, table)}, ${sql.json(rows as never)})`;

/** Inserts records, which must all have the same columns. Returns their ids in the order of `rows`. */
export async function insertRows(
  sql: Transaction,
  customerId: string,
  table: Table,
  rows: readonly Row[],
): Promise<string[]> {
  if (rows.length === 0) return [];
  const columns = constant(sql, Object.keys(rows[0]!).join(', '));
  const inserted = await sql<{ id: string }[]>`
    insert into ${constant(sql, table)} (customer_id, ${columns})
    select ${customerId}, ${columns}
    from ${rowsOf(sql, table, rows)} with ordinality given
    order by given.ordinality
    returning id`;
  // The database creates ascending ids within a transaction.
  return inserted.map(({ id }) => id).toSorted();
}

/**
 * Updates records, which must all have the same columns, and sets their `updated_at`. The caller must have locked the
 * records.
 */
export async function updateRows(
  sql: Transaction,
  customerId: string,
  table: Table,
  rows: readonly (Row & { id: string })[],
): Promise<void> {
  if (rows.length === 0) return;
  const columns = Object.keys(rows[0]!).filter((name) => name !== 'id');
  const assignments = constant(sql, columns.map((name) => `${name} = given.${name}`).join(', '));
  await sql`
    update ${constant(sql, table)} r
    set ${assignments}, updated_at = (select clock_timestamp())
    from ${rowsOf(sql, table, rows)} given
    where r.customer_id = ${customerId}
      and r.id = given.id`;
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
