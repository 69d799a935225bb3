import { expect, onTestFinished, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase } from '../../src/database/db.ts';
import { appWithoutDatabase } from '../contract/declared.ts';
import { startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';
import { lockTable } from '../setup/locks.ts';

const testApp = await startApp();
const ready = { status: 'ready', checks: { postgres: 'up', schema: 'current' } };

/** Waits until a check finds this state. Each check serves for a while. */
async function expectState(state: object): Promise<void> {
  await expect.poll(() => inject(testApp.fastify, 'GET', '/readyz'), { timeout: 10_000 }).toMatchObject(state);
}

test('the process is alive whatever the state of its database', async () => {
  for (const app of [testApp.fastify, appWithoutDatabase()])
    expect(await inject(app, 'GET', '/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } });
});

test('it is not ready without the database, and reports it as down', async () => {
  const answer = await inject(appWithoutDatabase(), 'GET', '/readyz');
  expect(answer).toMatchObject({
    status: 503,
    body: { status: 'not ready', checks: { postgres: 'down', schema: 'unknown' } },
  });
});

test('a flood of requests makes one check at a time, and each check serves for a while', async () => {
  let [checks, running, most] = [0, 0, 0];
  const health: typeof testApp.db.health = async (work) => {
    checks += 1;
    most = Math.max(most, (running += 1));
    return testApp.db.health(work).finally(() => (running -= 1));
  };
  const db = { ...testApp.db, health };
  const app = buildApp({ config: { ...testApp.config, OVERLOAD_MS: 0 }, db, catalog: testApp.catalog });
  onTestFinished(() => app.close());
  const begun = performance.now();
  for (let round = 0; round < 10; round += 1) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => inject(app, 'GET', '/readyz')));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  }
  expect(most).toBe(2); // of the schema and of the jobs
  expect(checks / 2).toBeLessThanOrEqual(1 + (performance.now() - begun) / 250);
});

test('it is ready while callers use all connections of the database', async () => {
  const config = parseConfig({
    LOG_LEVEL: 'trace',
    DATABASE_URL: testApp.url,
    DATABASE_LOOKUP_CONNECTIONS: '1',
    DATABASE_QUEUE_MS: '200',
  });
  const db = openDatabase(config, testApp.url);
  const app = buildApp({ config, db, catalog: testApp.catalog });
  onTestFinished(async () => {
    await app.close();
    await db.close();
  });
  const release = await lockTable(testApp, 'products');
  const callers = Array.from({ length: 100 }, (_, i) =>
    db.for({ customerId: `${i}` }, null).lookup((sql) => sql`select from products`),
  );
  const all = Promise.allSettled(callers);
  await expect
    .poll(() =>
      db
        .lookup((sql) => sql`select 1`)
        .then(
          () => 'free',
          () => 'full',
        ),
    )
    .toBe('full');
  expect(await inject(app, 'GET', '/readyz')).toMatchObject({ status: 200, body: ready });
  await release();
  await all;
});

test('it is not ready with a schema that is behind, or ahead without saying that this release can run on it', async () => {
  const [last] =
    await testApp.owner`delete from schema_migrations where name = (select max(name) from schema_migrations) returning *`;
  await expectState({ status: 503, body: { status: 'not ready', checks: { postgres: 'up', schema: 'behind' } } });
  await testApp.owner`insert into schema_migrations ${testApp.owner([last!, { ...last!, name: '9999_of_tomorrow.sql', oldest_release: '99.0.0' }])}`;
  await expectState({ status: 503, body: { checks: { postgres: 'up', schema: 'ahead' } } });
  await testApp.owner`update schema_migrations set oldest_release = '1.0.0' where name = '9999_of_tomorrow.sql'`;
  await expectState({ status: 200, body: { status: 'ready', checks: { schema: 'ahead' } } });
  await testApp.owner`delete from schema_migrations where name = '9999_of_tomorrow.sql'`;
  await expectState({ status: 200, body: ready });
});

test('workers are degraded while a job has waited for a minute and no worker was seen', async () => {
  const expectWorkers = (workers: string) =>
    expectState({ status: 200, body: { status: 'ready', checks: { workers } } });
  const { id } = await testApp.customer();
  const insertJob = (age: string) => testApp.owner`
    insert into jobs (customer_id, id, type, sync_crm, request, pool, total, cost, reserved)
    values (${id}, uuidv7(${age}::interval), 'verify_email', false, '{}', 'verification', 0, 1, 0)`;
  await insertJob('-50 seconds');
  await expectWorkers('up');
  await insertJob('-61 seconds');
  await expectWorkers('degraded');
  await testApp.owner`update pgboss.queue set monitor_on = now() where name = 'verify'`;
  await expectWorkers('up');
  await testApp.owner`update pgboss.queue set monitor_on = now() - interval '61 seconds'`;
  await expectWorkers('degraded');
  await testApp.owner`update jobs set status = 'FAILED', finished_at = now() where customer_id = ${id}`;
  await expectWorkers('up');
});

test('verification is degraded while a job waits for the name server', async () => {
  const expectVerification = (verification: string) =>
    expectState({ status: 200, body: { status: 'ready', checks: { verification } } });
  const { id } = await testApp.customer();
  await testApp.owner`
    insert into jobs (customer_id, type, sync_crm, request, pool, total, cost, reserved, waiting_for, waiting_since)
    values (${id}, 'verify_email', false, '{}', 'verification', 0, 1, 0, 'name_server', now())`;
  await expectVerification('degraded');
  await testApp.owner`update jobs set waiting_for = null, waiting_since = null where customer_id = ${id}`;
  await expectVerification('up');
  await testApp.owner`update jobs set status = 'FAILED', finished_at = now() where customer_id = ${id}`;
});

test('storage is degraded from a write that found the disk full to the next one that succeeds', async () => {
  const storage = async () => (await inject(testApp.fastify, 'GET', '/readyz')).body.checks.storage;
  const failing = testApp.db.transaction(
    (sql) => sql`do $$ begin raise exception 'no space' using errcode = '53100'; end $$`,
  );
  await expect(failing).rejects.toMatchObject({ code: 'unavailable' });
  await expect.poll(storage).toBe('degraded');
  // A transaction that only reads, or fails for another reason, says nothing about the disk.
  await testApp.db.transaction((sql) => sql`select 1`);
  await expect(testApp.db.transaction((sql) => sql`select 1 / 0`)).rejects.toThrow('division by zero');
  expect(await storage()).toBe('degraded');
  expect((await (await testApp.customer()).post('/list-contact', { name: 'Written' })).status).toBe(201);
  await expect.poll(storage).toBe('up');
});
