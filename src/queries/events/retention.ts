import type { Database, Transaction } from '../../database/db.ts';
import { parts, partSeconds } from './journal.ts';

/** A partition that is used again within this time is left alone (seconds). */
const marginSeconds = 3_600;
/** How long the truncation waits for readers, such as a dump, while others wait for it (ms). It is tried again later. */
const lockMs = 100;

/**
 * Empties the partitions of the journal whose rows are all older than this. Each is emptied long before it is used again;
 * if no worker ran in that time, its rows are kept for one more round.
 * @param db for work on the rows of all customers
 * @returns the number of partitions emptied
 */
export async function truncateJournal(db: Database, days: number): Promise<number> {
  const [{ now }] = await db.lookup(
    (sql) => sql<[{ now: number }]>`select extract(epoch from statement_timestamp())::bigint as now`,
  );
  let emptied = 0;
  for (const part of oldParts(now, days)) if (await emptyPart(db, part)) emptied += 1;
  return emptied;
}

/**
 * Returns the partitions that can be emptied, the oldest first.
 * @param now seconds since 1970
 */
export function oldParts(now: number, days: number): number[] {
  const period = Math.floor(now / partSeconds);
  return Array.from({ length: parts - 1 }, (_, i) => period - parts + 1 + i)
    .filter((one) => (one + 1) * partSeconds + days * 86_400 < now)
    .filter((one) => (one + parts) * partSeconds - now > marginSeconds)
    .map((one) => one % parts);
}

/** Returns false if the partition is empty, or something else uses it. */
async function emptyPart(db: Database, part: number): Promise<boolean> {
  const name = `journal_${String(part).padStart(2, '0')}`;
  try {
    return await db.transaction(async (sql) => {
      const [row] = await sql`select position from journal where part = ${part} limit 1`;
      if (!row) return false;
      await sql`select set_config('lock_timeout', ${String(lockMs)}, true)`;
      await keepEnds(sql, part);
      await sql`truncate ${sql(name)}`;
      return true;
    });
  } catch (error) {
    if (isLocked(error)) return false;
    throw error;
  }
}

/** Keeps of each customer where the journal goes on, and its totals, in case no row of it is left. */
const keepEnds = (sql: Transaction, part: number) => sql`
  insert into journal_ends as kept (customer_id, position, id, contacts, companies)
  select distinct on (customer_id) customer_id, position, id, contacts, companies
  from journal
  where part = ${part}
  order by customer_id, position desc
  on conflict (customer_id) do update
  set position = excluded.position, id = excluded.id, contacts = excluded.contacts, companies = excluded.companies
  where kept.position < excluded.position`;

/** SQLSTATE 55P03, perhaps as the cause of an error of the service. */
const isLocked = (error: unknown): boolean =>
  error instanceof Error && (('code' in error && error.code === '55P03') || isLocked(error.cause));
