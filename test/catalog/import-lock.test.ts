import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import postgres from 'postgres';
import { withImportLock } from '../../src/catalog/import-lock.ts';
import { startApp } from '../setup/app.ts';

const app = await startApp();

/** Terminates the service's database connections, also those in a transaction. */
async function cutAll(): Promise<void> {
  const superuser = postgres(app.superuserUrl, { max: 1, onnotice: () => {} });
  await superuser`
    select pg_terminate_backend(pid)
    from pg_stat_activity
    where datname = current_database() and application_name = 'sales-data-api'`;
  await superuser.end({ timeout: 1 });
}

test('an import whose lock was lost with its connection ends at its next step, and another one may begin', async () => {
  const other = (): Promise<boolean> => withImportLock(app.db, async () => true);
  const importing = withImportLock(app.db, async (stillHeld) => {
    stillHeld();
    await expect(other()).rejects.toMatchObject({ code: 'conflict' });
    await cutAll();
    for (const end = performance.now() + 20_000; performance.now() < end; await sleep(100)) stillHeld();
  });
  await expect(importing).rejects.toMatchObject({ code: 'unavailable' });
  expect(await other()).toBe(true);
});
