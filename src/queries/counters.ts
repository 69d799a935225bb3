import type { Sql, Transaction } from '../database/db.ts';
import type { FragmentMaker } from '../filters/sql.ts';

/** The name of a counter: `contacts`, `companies`, or the id of the list whose members it counts. */
export type Counted = 'contacts' | 'companies' | (string & {});

class Changes {
  readonly #changes = new Map<Counted, number>();
  #areTaken = false;

  add(counted: Counted, change: number): void {
    if (change === 0) return;
    if (this.#areTaken) throw new Error('The counters of this transaction are saved already');
    this.#changes.set(counted, (this.#changes.get(counted) ?? 0) + change);
  }

  /** Runs a part of the transaction. If `work` throws, its changes are dropped: the caller rolls this part back. */
  async attempt<T>(work: (counts: CountChanges) => Promise<T>): Promise<T> {
    const own = new Changes();
    const result = await work(own);
    for (const [counted, change] of own.#changes) this.add(counted, change);
    return result;
  }

  /**
   * Returns the non-zero changes as two parallel arrays of counter names and differences, for the statement that saves
   * them. No change can be added afterwards, and none is returned again.
   */
  take(): { counted: Counted[]; changes: number[] } {
    const changed = this.#areTaken ? [] : [...this.#changes].filter(([, change]) => change !== 0);
    this.#areTaken = true;
    return { counted: changed.map(([counted]) => counted), changes: changed.map(([, change]) => change) };
  }
}

/**
 * The changes that a transaction makes to counters, such as the number of contacts. Only `withCounts` creates this
 * object, and saves the changes.
 */
export type CountChanges = Changes;

/**
 * Runs the part of a transaction that changes counters, and saves the changes at its end. Other transactions of the
 * same customer wait while a counter is locked, and two that lock counters in several statements can wait for each
 * other. So a transaction calls this function once, and as its last step.
 */
export async function withCounts<T>(
  sql: Transaction,
  customerId: string,
  work: (counts: CountChanges) => Promise<T>,
): Promise<T> {
  const counts = new Changes();
  const result = await work(counts);
  await saveCounts(sql, customerId, counts);
  return result;
}

/** Runs work that changes counters, and drops the changes, because the caller rolls the work back. */
export const withoutCounts = <T>(work: (counts: CountChanges) => Promise<T>): Promise<T> => work(new Changes());

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

async function saveCounts(sql: Transaction, customerId: string, gathered: CountChanges): Promise<void> {
  const { counted, changes } = gathered.take();
  if (counted.length === 0) return;
  if (counted.length > 1) await sql.unsafe(given, [customerId, counted, changes], { prepare: true });
  else await sql.unsafe(givenOne, [customerId, counted[0]!, changes[0]!], { prepare: true });
}

/** Returns the exact value of a counter, or 0 if the counter was never changed. */
export async function readCount(sql: Sql | Transaction, customerId: string, counted: Counted): Promise<number> {
  const { total, from, where } = storedCountClauses(sql, customerId, counted);
  const [row] = await sql<{ records: number }[]>`
    select ${total} as records
    from ${from}
    where ${where}`;
  return row!.records;
}

/** Returns the SQL clauses that read a counter. Use them as `select ${total} from ${from} where ${where}`. */
export const storedCountClauses = (sql: FragmentMaker, customerId: string, counted: Counted) => ({
  total: sql`coalesce(sum(records), 0)`,
  from: sql`counters`,
  where: sql`customer_id = ${customerId} and counted = ${counted}`,
});

/** SQL expression: the stored number of members of the list `l`. */
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
