import { expect, test } from 'vitest';
import { presets } from '../../src/pages/keys.ts';
import { startApp } from '../setup/app.ts';
import { inject } from '../setup/factories.ts';
import { declaredRoutes, scopesOf } from './declared.ts';
import { makeRecords, pathOf, snapshot } from './records.ts';
import { bodyFor } from './references.ts';

// Derived from the app's routes and their schemas: a new route is covered without a change here.
const { documented } = await declaredRoutes();
const routes = documented.filter(({ access }) => scopesOf(access).length > 0);
const app = await startApp();

/** What a scope for reading allows beside reading, as the contract says: copying a list, and stopping its verification. */
const writing = new Set(['POST /api/ext/list-contact/duplicate', 'POST /api/ext/service-handler/:id/cancel']);

/** Written when somebody reads: counts that are wanted. Of the journal, what the copies write. */
const ofReaders = /^(?:journal.*|duplicate_counts)$/;

const stored = async () => {
  const tables = await snapshot(app);
  return Object.fromEntries(Object.entries(tables).filter(([name]) => !ofReaders.test(name)));
};

test('a key of the preset "Read only" spends nothing, and writes nothing but copies of lists', async () => {
  const { scopes, caps } = presets.find(({ label }) => label === 'Read only')!;
  const records = await makeRecords(app);
  const { customer, list, contact } = records;
  await customer.post('/list-contact-details/add-contacts', { list_id: list, contact_ids: [contact] });
  const { keyId, key } = await customer.withCaps(caps);
  await app.owner`update api_keys set permissions = ${scopes} where id = ${keyId}`;
  const seen = { ...records, job: records.jobs['list_contacts:read'] ?? records.job };
  const statuses = new Map<string, number>();
  const call = async (route: (typeof routes)[number]) => {
    const headers = { authorization: `X-API-Key ${key}` };
    const { status } = await inject(app.fastify, route.method, pathOf(route, seen), bodyFor(route, seen), headers);
    statuses.set(route.name, status);
  };
  const before = await stored();
  for (const route of routes) if (!writing.has(route.name)) await call(route);
  expect(await stored()).toEqual(before);
  const allowed = routes.filter(({ access }) => scopesOf(access).some((scope) => scopes.includes(scope as never)));
  expect([...statuses].filter(([, status]) => status < 400).length).toBeGreaterThan(20);
  expect([...statuses].filter(([, status]) => status === 402).map(([name]) => name)).toEqual([
    'POST /api/ext/list-contact/verify-contacts/:id',
  ]);
  expect([...statuses].filter(([, status]) => status === 403)).toHaveLength(routes.length - allowed.length);
  for (const route of routes) if (writing.has(route.name)) await call(route);
  const [spent] = await app.owner<[{ count: number }]>`
    select count(*)::integer as count from key_spending where api_key_id = ${keyId}`;
  expect(spent).toEqual({ count: 0 });
});
