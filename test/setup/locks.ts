import type postgres from 'postgres';
import { expect } from 'vitest';
import type { Transaction } from '../../src/database/db.ts';
import { isOnCitus } from './database.ts';

/** Waits until another session waits for a lock that this transaction holds. */
export async function somebodyWaitsFor(
  transaction: postgres.TransactionSql | Transaction,
  sql: postgres.Sql,
): Promise<void> {
  const [us] = await transaction<[{ pid: number }]>`select pg_backend_pid() as pid`;
  const waiting = () => waitingFor(us.pid, sql);
  await expect.poll(async () => (await waiting()).length, { timeout: 10_000 }).toBeGreaterThan(0);
}

/** Returns a row for each session that waits for a lock of the session with this process id. */
export const waitingFor = (pid: number, sql: postgres.Sql) =>
  // In a distributed database the lock may be on a worker. The global id of a session there ends with its process id.
  isOnCitus()
    ? sql`select from citus_lock_waits where blocking_gpid % 10000000000 = ${pid}`
    : sql`select from pg_locks where not granted and ${pid} = any(pg_blocking_pids(pid))`;
