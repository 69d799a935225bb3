import type { PendingQuery, Row } from 'postgres';
import type { Queryable, Transaction } from '../../database/db.ts';
import type { FragmentMaker } from '../../filters/sql.ts';

/** The name of a counter: `contacts`, `companies`, or the id of the list whose members it counts. */
export type Counted = 'contacts' | 'companies' | (string & {});

/**
 * Number of rows that one counter is split into; the counter's value is their sum. Different database connections
 * usually update different rows, so that they do not wait for each other.
 */
const shards = 32;

/**
 * Returns the SQL statement that adds changes to counters. Locks counter rows in the order of their names, so that
 * concurrent transactions cannot deadlock.
 * @param rows SQL query for the columns `counted` (name of a counter) and `change` (number to add); `$1` is the
 *   customer
 */
export const writeCounts = (rows: string): string => `
  insert into counters (customer_id, counted, shard, records)
  select $1::uuid, d.counted, pg_backend_pid() % ${shards}, sum(d.change)
  from (${rows}) d
  group by d.counted
  having sum(d.change) <> 0
  order by d.counted collate "C"
  on conflict (customer_id, counted, shard) do update
  set records = counters.records + excluded.records`;

const given = writeCounts('select * from unnest($2::text[], $3::integer[]) as given (counted, change)');

/** Adds a change to one counter. For one row, Citus needs a third of the time that it needs for the rows of a query. */
const givenOne = `
  insert into counters (customer_id, counted, shard, records)
  values ($1::uuid, $2, pg_backend_pid() % ${shards}, $3::integer)
  on conflict (customer_id, counted, shard) do update
  set records = counters.records + excluded.records`;

/** Returns the statements that add changes to counters, given as two parallel arrays of names and differences. */
export function savesOf(
  sql: Transaction,
  customerId: string,
  { counted, changes }: { counted: Counted[]; changes: number[] },
): PendingQuery<Row[]>[] {
  if (counted.length === 0) return [];
  return counted.length > 1
    ? [sql.unsafe(given, [customerId, counted, changes], { prepare: true })]
    : [sql.unsafe(givenOne, [customerId, counted[0]!, changes[0]!], { prepare: true })];
}

/** Returns the exact value of a counter, or 0 if the counter was never changed. */
export async function readCount(sql: Queryable, customerId: string, counted: Counted): Promise<number> {
  const { total, from, where } = storedCountClauses(sql, customerId, counted);
  const [row] = await sql<{ records: number }[]>`
    select ${total} as records
    from ${from}
    where ${where}`;
  return row!.records;
}

export const storedCountClauses = (sql: FragmentMaker, customerId: string, counted: Counted) => ({
  total: sql`coalesce(sum(records), 0)`,
  from: sql`counters`,
  where: sql`customer_id = ${customerId} and counted = ${counted}`,
});

export const storedMembers = (sql: FragmentMaker, customerId: string) => sql`(
  select coalesce(sum(k.records), 0)
  from counters k
  where k.customer_id = ${customerId}
    and k.counted = l.id::text
)`;

/** Deletes the counter of a deleted record. No other transaction may still be changing this counter. */
export async function dropCount(sql: Transaction, customerId: string, counted: Counted): Promise<void> {
  await sql`
    delete from counters
    where customer_id = ${customerId}
      and counted = ${counted}`;
}
