import { expect, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';
import { startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';

const testApp = await startApp();
const ready = { status: 'ready', checks: { postgres: 'up', schema: 'current' } };

test('the process is alive whatever the state of its database', async () => {
  for (const app of [testApp.fastify, appWithoutDatabase()])
    expect(await inject(app, 'GET', '/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } });
});

test('it is ready when the database responds and has the schema of this version', async () => {
  expect(await inject(testApp.fastify, 'GET', '/readyz')).toMatchObject({ status: 200, body: ready });
});

test('a load balancer may use HEAD', async () => {
  expect(await inject(testApp.fastify, 'HEAD', '/healthz')).toMatchObject({ status: 200, body: '' });
  expect(await inject(testApp.fastify, 'HEAD', '/readyz')).toMatchObject({ status: 200, body: '' });
});

test('it is not ready without the database, and reports it as down', async () => {
  const answer = await inject(appWithoutDatabase(), 'GET', '/readyz');
  expect(answer).toMatchObject({
    status: 503,
    body: { status: 'not ready', checks: { postgres: 'down', schema: 'unknown' } },
  });
});

test('it is not ready with a schema that is behind, or ahead without saying that this release can run on it', async () => {
  const [last] =
    await testApp.owner`delete from schema_migrations where name = (select max(name) from schema_migrations) returning *`;
  const behind = await inject(testApp.fastify, 'GET', '/readyz');
  await testApp.owner`insert into schema_migrations ${testApp.owner([last!, { ...last!, name: '9999_of_tomorrow.sql', oldest_release: null }])}`;
  const ahead = await inject(testApp.fastify, 'GET', '/readyz');
  await testApp.owner`update schema_migrations set oldest_release = '1.0.0' where name = '9999_of_tomorrow.sql'`;
  const supported = await inject(testApp.fastify, 'GET', '/readyz');
  await testApp.owner`delete from schema_migrations where name = '9999_of_tomorrow.sql'`;
  expect(behind).toMatchObject({
    status: 503,
    body: { status: 'not ready', checks: { postgres: 'up', schema: 'behind' } },
  });
  expect(ahead).toMatchObject({ status: 503, body: { checks: { postgres: 'up', schema: 'ahead' } } });
  expect(supported).toMatchObject({ status: 200, body: { status: 'ready', checks: { schema: 'ahead' } } });
  expect(await inject(testApp.fastify, 'GET', '/readyz')).toMatchObject({ status: 200, body: ready });
});

test('workers are degraded while a job has waited for a minute and no worker was seen', async () => {
  const workers = async () => (await inject(testApp.fastify, 'GET', '/readyz')).body.checks.workers;
  const { id } = await testApp.customer();
  const insertJob = (age: string) => testApp.owner`
    insert into jobs (customer_id, id, type, sync_crm, request, pool, total, cost, reserved)
    values (${id}, uuidv7(${age}::interval), 'verify_email', false, '{}', 'verification', 0, 1, 0)`;
  await insertJob('-50 seconds');
  expect(await workers()).toBe('up');
  await insertJob('-61 seconds');
  expect(await inject(testApp.fastify, 'GET', '/readyz')).toMatchObject({
    status: 200,
    body: { status: 'ready', checks: { workers: 'degraded' } },
  });
  await testApp.owner`insert into worker_slots (kind, process_id, number) values ('verify', uuidv7(), 0)`;
  expect(await workers()).toBe('up');
  await testApp.owner`update worker_slots set seen_at = now() - interval '61 seconds'`;
  expect(await workers()).toBe('degraded');
  await testApp.owner`update jobs set status = 'FAILED', finished_at = now() where customer_id = ${id}`;
  expect(await workers()).toBe('up');
});

test('storage is degraded from a write that found the disk full to the next one that succeeds', async () => {
  const storage = async () => (await inject(testApp.fastify, 'GET', '/readyz')).body.checks.storage;
  const failing = testApp.db.transaction(
    (sql) => sql`do $$ begin raise exception 'no space' using errcode = '53100'; end $$`,
  );
  await expect(failing).rejects.toMatchObject({ code: 'unavailable' });
  expect(await storage()).toBe('degraded');
  // A transaction that only reads, or fails for another reason, says nothing about the disk.
  await testApp.db.transaction((sql) => sql`select 1`);
  await expect(testApp.db.transaction((sql) => sql`select 1 / 0`)).rejects.toThrow('division by zero');
  expect(await storage()).toBe('degraded');
  expect((await (await testApp.customer()).post('/list-contact', { name: 'Written' })).status).toBe(201);
  expect(await storage()).toBe('up');
});
