import postgres from 'postgres';
import { afterAll, expect, test } from 'vitest';
import { createDatabase } from '../setup/database.ts';
import { startServerProcess } from '../setup/server-process.ts';

const database = await createDatabase('nothing');
afterAll(() => database.drop());

const environment = { MIGRATION_DATABASE_URL: database.ownerUrl };
const entry = ['src/cli.ts', 'serve', '--migrate', '--demo', '--json'];

test('two servers that start with the demo on an empty database at the same time both serve one demo customer', async () => {
  const servers = await Promise.all([1, 2].map(() => startServerProcess(database.url, environment, entry)));
  for (const { url } of servers) expect((await fetch(`${url}/readyz`)).status).toBe(200);
  const owner = postgres(database.ownerUrl, { max: 1, fetch_types: false });
  const [counts] = await owner`
    select
      (select count(*)::integer from customers) as customers,
      (select count(*)::integer from users) as users,
      (select count(*)::integer from contacts) as contacts,
      (select count(*)::integer from jobs) as jobs,
      (select count(*)::integer from prospects) as prospects,
      (select count(*)::integer from catalog_imports) as unfinished,
      (select count(*)::integer from api_keys) as keys`;
  await owner.end({ timeout: 1 });
  expect(counts).toMatchObject({
    customers: 1,
    users: 2,
    jobs: 1,
    contacts: 300,
    prospects: 5_000,
    unfinished: 0,
    keys: 2,
  });
  expect(await Promise.all(servers.map(({ stop }) => stop()))).toEqual([0, 0]);
});
