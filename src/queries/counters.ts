import type { Sql, Transaction } from '../db.ts';
import type { FragmentMaker } from '../filters/sql.ts';

/** What is counted: all contacts, all companies, or the members of the list with this id. */
export type Counted = 'contacts' | 'companies' | (string & {});

/**
 * By how much a transaction changes exact counts. They are gathered while it works and written by its last statement, so
 * that the rows which every writer of the customer touches are locked for a moment only, and by all in the same order.
 */
export class CountChanges {
  readonly #changes = new Map<Counted, number>();

  add(counted: Counted, change: number): this {
    this.#changes.set(counted, (this.#changes.get(counted) ?? 0) + change);
    return this;
  }

  /** What changed, and by how much, as two arrays for a statement. */
  toArrays(): { counted: Counted[]; changes: number[] } {
    const changed = [...this.#changes].filter(([, change]) => change !== 0);
    return { counted: changed.map(([counted]) => counted), changes: changed.map(([, change]) => change) };
  }
}

/** Backends that may write the same count at once without waiting for each other, as long as their process ids differ by it. */
const shards = 32;

/**
 * The statement that writes counts; `rows` selects `counted` and `change`, and customer is $1. Every transaction takes the
 * rows of counters in the order of their names. (Lists before totals: ids of version 7 start with a digit.)
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

/** Writes the changes, if there are any. Has to be the last statement of its transaction but for `commit`. */
export async function saveCounts(sql: Transaction, customerId: string, gathered: CountChanges): Promise<void> {
  const { counted, changes } = gathered.toArrays();
  if (counted.length > 0) await sql.unsafe(given, [customerId, counted, changes], { prepare: true });
}

/** How many there are, exactly. */
export async function readCount(sql: Sql | Transaction, customerId: string, counted: Counted): Promise<number> {
  const { total, from, where } = countKept(sql, customerId, counted);
  const [row] = await sql<{ records: number }[]>`
    select ${total} as records
    from ${from}
    where ${where}`;
  return row!.records;
}

/** The clauses of the statement that reads a count: `select ${total} from ${from} where ${where}`. */
export const countKept = (sql: FragmentMaker, customerId: string, counted: Counted) => ({
  total: sql`coalesce(sum(records), 0)`,
  from: sql`counters`,
  where: sql`customer_id = ${customerId} and counted = ${counted}`,
});

/** Forgets the count of something that is gone. Nobody may be counting it any more. */
export async function dropCount(sql: Transaction, customerId: string, counted: Counted): Promise<void> {
  await sql`
    delete from counters
    where customer_id = ${customerId}
      and counted = ${counted}`;
}
