import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../database/db.ts';
import { conflict } from '../errors.ts';

const lockKey = 7_203_466_151;

const heartbeatMs = 1_000;
/**
 * Milliseconds that the transaction with the lock may be idle before PostgreSQL ends it. Long, because a busy machine
 * may be late.
 */
const maxIdleMs = 600_000;

export type StillHeld = () => void;

/**
 * Runs an import, removal or reindex under a lock that only one process can hold. The lock ends with its connection, so
 * `work` must call `stillHeld` often. It throws if the connection was lost, which is noticed after about a second.
 * @throws DomainError `conflict` if another process holds the lock
 */
export const withImportLock = <T>(db: Database, work: (stillHeld: StillHeld) => Promise<T>): Promise<T> =>
  db.transaction(async (sql) => {
    await sql`select set_config('idle_in_transaction_session_timeout', ${String(maxIdleMs)}, true)`;
    const [lock] = await sql<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${lockKey}::bigint) as taken`;
    if (!lock.taken)
      throw conflict('Another import, removal or reindex of the catalog is running. Try again when it has ended');
    const ended = new AbortController();
    let loss: unknown;
    const beat = async (): Promise<void> => {
      while (!ended.signal.aborted) {
        await sql`select 1`;
        await sleep(heartbeatMs, undefined, { signal: ended.signal }).catch(() => undefined);
      }
    };
    const beating = beat().catch((error: unknown) => {
      loss = error;
    });
    try {
      return await work(() => {
        if (loss !== undefined) throw loss;
      });
    } finally {
      ended.abort();
      await beating;
    }
  });
