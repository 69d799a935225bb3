import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { DomainError, unavailable } from '../../src/errors.ts';
import { withImportLock } from '../../src/catalog/import-lock.ts';
import { retryingDatabase } from '../../src/database/db.ts';
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

test('a retrying database survives lost connections, and throws other errors at once', async () => {
  const db = retryingDatabase(app.db);
  const cut = cutAll();
  const sums = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      db.transaction(async (sql) => {
        await sql`select pg_sleep(0.05)`;
        return (await sql<[{ sum: number }]>`select ${i}::int + 1 as sum`)[0].sum;
      }),
    ),
  );
  await cut;
  expect(sums).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  await expect(db.lookup((sql) => sql`select 1 / 0`)).rejects.toMatchObject({ code: '22012' });
});

test('a retrying database throws once its patience is used up', async () => {
  let asked = 0;
  const down = { ...app.db, lookup: () => Promise.reject(((asked += 1), unavailable('away'))) };
  await expect(retryingDatabase(down, 400).lookup((sql) => sql`select 1`)).rejects.toMatchObject({
    code: 'unavailable',
  });
  expect(asked).toBeGreaterThan(1);
});

test('an import lock lost with its connection is taken again, and is exclusive while it is held', async () => {
  const db = retryingDatabase(app.db);
  await withImportLock(db, async (stillHeld) => {
    await cutAll();
    // The next heartbeat notices the loss.
    await sleep(1_500);
    await stillHeld();
    await expect(withImportLock(app.db, async () => undefined)).rejects.toMatchObject({ code: 'conflict' });
  });
  await withImportLock(app.db, async () => undefined);
});

test('an import lock that cannot be taken again rejects the work that waits for it, and all later checks', async () => {
  let transactions = 0;
  const transaction: typeof app.db.transaction = async (work) => {
    transactions += 1;
    if (transactions > 1) throw new DomainError('unavailable', 'refused');
    return app.db.transaction(work);
  };
  const working = withImportLock({ ...app.db, transaction }, async (stillHeld) => {
    await cutAll();
    // By then the heartbeat has noticed the loss, and the second transaction was refused.
    await sleep(2_500);
    await expect(stillHeld()).rejects.toMatchObject({ code: 'unavailable' });
    await stillHeld();
  });
  await expect(working).rejects.toMatchObject({ code: 'unavailable' });
  expect(transactions).toBe(2);
});
