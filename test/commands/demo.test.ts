import postgres from 'postgres';
import { expect, test } from 'vitest';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { loadDemo, loadDemoCatalog } from '../../src/commands/load-demo.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
import { createDatabase } from '../setup/database.ts';
import { startServerProcess } from '../setup/server-process.ts';

test('two servers that start with the demo on an empty database at the same time both serve one demo customer', async () => {
  const database = await createDatabase('nothing');
  const environment = { MIGRATION_DATABASE_URL: database.ownerUrl };
  const entry = ['src/cli.ts', 'serve', '--migrate', '--demo', '--json'];
  const servers = await Promise.all([1, 2].map(() => startServerProcess(database.url, environment, entry)));
  for (const { url } of servers) expect((await fetch(`${url}/readyz`)).status).toBe(200);
  const owner = postgres(database.ownerUrl, { max: 1, fetch_types: false });
  const [counts] = await owner`
    select
      (select count(*)::integer from customers) as customers,
      (select count(*)::integer from users) as users,
      (select count(*)::integer from contacts) as contacts,
      (select count(*)::integer from companies where coalesce(size, '') = '') as blank,
      (select count(*)::integer from jobs) as jobs,
      (select count(*)::integer from prospects) as prospects,
      (select count(*)::integer from catalog_imports) as unfinished,
      (select count(*)::integer from api_keys) as keys`;
  await owner.end({ timeout: 1 });
  const expected = {
    customers: 1,
    users: 2,
    jobs: 1,
    blank: 0,
    contacts: 300,
    prospects: 5_000,
    unfinished: 0,
    keys: 2,
  };
  expect(counts).toEqual(expected);
  expect(await Promise.all(servers.map(({ stop }) => stop()))).toEqual([0, 0]);
  await database.drop();
});

test('beside another customer the demo is loaded by force only, without its catalog, and the second time changes nothing', async () => {
  const other = await startApp();
  await other.customer();
  await expect(loadDemo(other)).rejects.toThrow('holds another customer');
  expect(await other.owner`select from customers`).toHaveLength(1);
  const first = await loadDemo(other, true);
  expect(first).toMatchObject({ created: true, prospects: 0 });
  const passwords = () => other.owner`select password_hash from users order by id`;
  const before = await passwords();
  const again = { customerId: first.customerId, created: false, password: null, key: null, prospects: null };
  expect(await loadDemo(other, true)).toMatchObject(again);
  expect(await passwords()).toEqual(before);
  expect(await other.owner`select from prospects`).toHaveLength(0);
});

test('the demo imports thousands of people into an empty catalog, once, and finishes an interrupted import', async () => {
  const { db, catalog } = await startApp();
  let writes = 0;
  const failing: Catalog = {
    ...catalog,
    write: (people) => ((writes += 1) > 2 ? Promise.reject(new Error('gone')) : catalog.write(people)),
  };
  await expect(loadDemoCatalog(db, failing)).rejects.toThrow('gone');
  expect(await loadDemoCatalog(db, catalog)).toBe(5_000);
  const untouched: Catalog = { ...catalog, write: () => Promise.reject(new Error('written again')) };
  expect(await loadDemoCatalog(db, untouched)).toBe(5_000);
});

test('the demo does not change a catalog that already has people', async () => {
  const { db, catalog } = await startApp();
  await catalog.prepare();
  await writePeople(catalog, [person()]);
  await catalog.finish();
  expect(await loadDemoCatalog(db, catalog)).toBe(1);
  expect(await catalog.count({ criteria: [] })).toBe(1);
});
