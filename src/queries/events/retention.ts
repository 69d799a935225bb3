import { randomUUID } from 'node:crypto';
import type { Database, Transaction } from '../../database/db.ts';

/** As in the migration: the number of partitions, and how long each is used in turn (seconds). */
const parts = 16;
const partSeconds = 345_600;
/** A partition that is used again within this time is left alone (seconds). */
const marginSeconds = 3_600;
/** How long the truncation waits for readers, such as a dump, while others wait for it (ms). It is tried again later. */
const lockMs = 100;

/**
 * Empties the partitions whose events are all older than this. Each is emptied long before it is used again; if no worker
 * ran in that time, its events are kept for one more round.
 * @param db for work on the rows of all customers
 * @returns the number of partitions emptied
 */
export async function removeOldEvents(db: Database, days: number): Promise<number> {
  const [{ now }] = await db.lookup(
    (sql) => sql<[{ now: number }]>`select extract(epoch from statement_timestamp())::bigint as now`,
  );
  let emptied = 0;
  for (const part of oldParts(now, days)) if (await emptyPart(db, part)) emptied += 1;
  return emptied;
}

/**
 * Returns the partitions that can be emptied.
 * @param now seconds since 1970
 */
export function oldParts(now: number, days: number): number[] {
  const period = Math.floor(now / partSeconds);
  return Array.from({ length: parts - 1 }, (_, i) => period - 1 - i)
    .filter((one) => (one + 1) * partSeconds + days * 86_400 < now)
    .filter((one) => (one + parts) * partSeconds - now > marginSeconds)
    .map((one) => one % parts);
}

/** Returns false if the partition is empty, or something else uses it. */
async function emptyPart(db: Database, part: number): Promise<boolean> {
  const name = `events_${String(part).padStart(2, '0')}`;
  try {
    return await db.transaction(async (sql) => {
      const [row] = await sql`select id from events where part = ${part} limit 1`;
      if (!row) return false;
      await sql`select set_config('lock_timeout', ${String(lockMs)}, true)`;
      await skipUnread(sql, part);
      await sql`truncate ${sql(name)}`;
      return true;
    });
  } catch (error) {
    if (isLocked(error)) return false;
    throw error;
  }
}

/**
 * Moves the heads of customers with events that nobody has read: these have no position, so without this a reader would
 * go on behind them as if they had not been there. Of all of a customer's, one position is given, to no event.
 */
async function skipUnread(sql: Transaction, part: number): Promise<void> {
  // All defaults are named: a distributed database does not fill in the clock here.
  await sql`
    insert into event_heads as head (customer_id, position, last_id, candidate_at, swept_at)
    select customer_id, 1, ${randomUUID()}::uuid, now(), now()
    from events
    where part = ${part}
      and last_position is null
    group by customer_id
    order by customer_id
    on conflict (customer_id) do update
    set position = head.position + 1, last_id = excluded.last_id`;
}

/** SQLSTATE 55P03, perhaps as the cause of an error of the service. */
const isLocked = (error: unknown): boolean =>
  error instanceof Error && (('code' in error && error.code === '55P03') || isLocked(error.cause));
