import { expect, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';
import { startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';

const t = await startApp();
const ready = { status: 'ready', checks: { postgres: 'up', schema: 'current' } };

test('the process says that it is alive, whatever its database does', async () => {
  for (const app of [t.app, appWithoutDatabase()])
    expect(await inject(app, 'GET', '/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } });
});

test('it is ready when the database answers and has the schema of this code', async () => {
  expect(await inject(t.app, 'GET', '/readyz')).toMatchObject({ status: 200, body: ready });
});

test('a load balancer may ask with HEAD', async () => {
  expect(await inject(t.app, 'HEAD', '/healthz')).toMatchObject({ status: 200, body: '' });
  expect(await inject(t.app, 'HEAD', '/readyz')).toMatchObject({ status: 200, body: '' });
});

test('it is not ready without the database, and names it', async () => {
  const answer = await inject(appWithoutDatabase(), 'GET', '/readyz');
  expect(answer).toMatchObject({
    status: 503,
    body: { status: 'not ready', checks: { postgres: 'down', schema: 'unknown' } },
  });
});

test('it is not ready with another schema, and says which', async () => {
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
