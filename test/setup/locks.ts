import type postgres from 'postgres';
import { expect } from 'vitest';
import type { Transaction } from '../../src/database/db.ts';

/** Waits until another session waits for a lock that this transaction holds. */
export async function somebodyWaitsFor(
  transaction: postgres.TransactionSql | Transaction,
  sql: postgres.Sql,
): Promise<void> {
  const [us] = await transaction<[{ pid: number }]>`select pg_backend_pid() as pid`;
  const waiting = () => sql`select from pg_locks where not granted and ${us.pid} = any(pg_blocking_pids(pid))`;
  await expect.poll(async () => (await waiting()).length, { timeout: 10_000 }).toBeGreaterThan(0);
}
