import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import type { Random } from '../../src/commands/generate-people.ts';

/** Tables that transactions write or refer to. */
const tables = ['users', 'contacts', 'companies', 'lists', 'list_members', 'journal'] as const;

/**
 * Locks a random table for a moment, again and again. Transactions then stop in the middle, and others overtake them:
 * races that a quiet machine would hardly ever show.
 */
export async function stopSometimes(owner: postgres.Sql, random: Random, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    await sleep(random.below(200));
    // Others must not wait behind a lock that waits itself.
    const locked = owner.begin(async (sql) => {
      await sql`set local lock_timeout = '20ms'`;
      await sql`lock table ${sql(random.pick(tables))} in exclusive mode`;
      await sleep(20 + random.below(200));
    });
    await locked.catch((error: unknown) => {
      if ((error as { code?: string }).code !== '55P03') throw error;
    });
  }
}
