import type postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import type { Transaction } from '../../src/database/db.ts';
import type { TestApp } from './app.ts';
import { asSuperuser, isOnCitus } from './database.ts';

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

/** Locks a table against readers until the returned function is called, at the end of the test at the latest. */
export async function lockTable({ owner }: TestApp, table: string): Promise<() => Promise<void>> {
  const session = await owner.reserve();
  let isLocked = true;
  const release = async () => {
    if (!isLocked) return;
    isLocked = false;
    await session`rollback`;
    session.release();
  };
  onTestFinished(release);
  await session`begin`;
  await session`lock table ${session(table)} in access exclusive mode`;
  return release;
}

/** Waits until this many sessions of the service wait for a lock, and returns their process ids. */
export async function waitersOf({ url }: TestApp, count: number): Promise<number[]> {
  let pids: number[] = [];
  const waiting = () =>
    asSuperuser(async (sql) => {
      const rows = await sql<{ pid: number }[]>`
        select pid
        from pg_stat_activity
        where datname = ${new URL(url).pathname.slice(1)} and wait_event_type = 'Lock'`;
      return (pids = rows.map(({ pid }) => pid));
    });
  await expect.poll(waiting, { timeout: 20_000, interval: 20 }).toHaveLength(count);
  return pids;
}
