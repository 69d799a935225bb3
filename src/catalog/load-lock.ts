import type { Database } from '../db.ts';
import { conflict } from '../errors.ts';

/** Of the advisory lock: any number that nothing else here takes. */
const lockKey = 7_203_466_151;

/** Much more often than the limit on idle transactions, which is that of requests no longer: a busy machine stalls for longer than they may. */
const heartbeatMs = 1_000;
const longestIdleMs = 600_000;

/**
 * Runs work that writes the catalog as a whole; one at a time, over all processes. The lock ends with its connection, so
 * also with a process that is killed.
 * @param work is told through the signal when the lock was lost on the way
 * @throws DomainError `conflict` when another is at work
 */
export async function withLoadLock<T>(db: Database, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  return db.transaction(async (sql) => {
    const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
    if (!lock.taken) throw conflict('Another import, removal or reindex of the catalog is under way');
    await sql`select set_config('idle_in_transaction_session_timeout', ${String(longestIdleMs)}, true)`;
    const lost = new AbortController();
    const heartbeat = setInterval(() => void sql`select 1`.catch((error: unknown) => lost.abort(error)), heartbeatMs);
    try {
      return await work(lost.signal);
    } finally {
      clearInterval(heartbeat);
    }
  });
}
