import { expect, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';
import { startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';

const t = await startApp();
const ready = { status: 'ready', checks: { postgres: 'up', schema: 'current' } };

test('the process is alive whatever the state of its database', async () => {
  for (const app of [t.app, appWithoutDatabase()])
    expect(await inject(app, 'GET', '/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } });
});

test('it is ready when the database responds and has the schema of this version', async () => {
  expect(await inject(t.app, 'GET', '/readyz')).toMatchObject({ status: 200, body: ready });
});

test('a load balancer may use HEAD', async () => {
  expect(await inject(t.app, 'HEAD', '/healthz')).toMatchObject({ status: 200, body: '' });
  expect(await inject(t.app, 'HEAD', '/readyz')).toMatchObject({ status: 200, body: '' });
});

test('it is not ready without the database, and reports it as down', async () => {
  const answer = await inject(appWithoutDatabase(), 'GET', '/readyz');
  expect(answer).toMatchObject({
    status: 503,
    body: { status: 'not ready', checks: { postgres: 'down', schema: 'unknown' } },
  });
});

test('it is not ready with another schema, and reports whether that is ahead or behind', async () => {
  const [last] =
    await t.owner`delete from schema_migrations where name = (select max(name) from schema_migrations) returning *`;
  const behind = await inject(t.app, 'GET', '/readyz');
  await t.owner`insert into schema_migrations ${t.owner([last!, { ...last!, name: '9999_of_tomorrow.sql' }])}`;
  const ahead = await inject(t.app, 'GET', '/readyz');
  await t.owner`delete from schema_migrations where name = '9999_of_tomorrow.sql'`;
  expect(behind).toMatchObject({
    status: 503,
    body: { status: 'not ready', checks: { postgres: 'up', schema: 'behind' } },
  });
  expect(ahead).toMatchObject({ status: 503, body: { checks: { postgres: 'up', schema: 'ahead' } } });
  expect(await inject(t.app, 'GET', '/readyz')).toMatchObject({ status: 200, body: ready });
});

test('workers are degraded while a job has waited for a minute and no worker was seen', async () => {
  const workers = async () => (await inject(t.app, 'GET', '/readyz')).body.checks.workers;
  const { id } = await t.customer();
  const insertJob = (age: string) => t.owner`
    insert into jobs (customer_id, id, type, sync_crm, request, pool, total, cost, reserved)
    values (${id}, uuidv7(${age}::interval), 'verify_email', false, '{}', 'verification', 0, 1, 0)`;
  await insertJob('-50 seconds');
  expect(await workers()).toBe('up');
  await insertJob('-61 seconds');
  expect(await inject(t.app, 'GET', '/readyz')).toMatchObject({
    status: 200,
    body: { status: 'ready', checks: { workers: 'degraded' } },
  });
  await t.owner`insert into worker_places (kind, process_id, number) values ('verify', uuidv7(), 0)`;
  expect(await workers()).toBe('up');
  await t.owner`update worker_places set seen_at = now() - interval '61 seconds'`;
  expect(await workers()).toBe('degraded');
  await t.owner`update jobs set status = 'FAILED', finished_at = now() where customer_id = ${id}`;
  expect(await workers()).toBe('up');
});

test('storage is degraded from a write that found the disk full to the next one that succeeds', async () => {
  const storage = async () => (await inject(t.app, 'GET', '/readyz')).body.checks.storage;
  const failing = t.db.transaction(
    (sql) => sql`do $$ begin raise exception 'no space' using errcode = '53100'; end $$`,
  );
  await expect(failing).rejects.toMatchObject({ code: 'unavailable' });
  expect(await storage()).toBe('degraded');
  expect((await (await t.customer()).post('/list-contact', { name: 'Written' })).status).toBe(201);
  expect(await storage()).toBe('up');
});
