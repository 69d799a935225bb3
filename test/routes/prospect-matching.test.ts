import { expect, test } from 'vitest';
import { insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
const ada = person({ profnet_url: 'https://profnet.example/in/ada' });
const twins = [1, 2].map((score) => person({ first_name: 'Twin', profnet_url: null, score }));

const app = await startApp();
const customer = await app.customer();
await app.catalog.prepare();
await writePeople(app.catalog, [ada, ...twins]);
await app.catalog.finish();

const match = (...people: object[]) => customer.post('/prospect/match', { people });
const company_name = 'Analytical Engines Ltd';

test('people are matched and masked as in lists, until they are unlocked', async () => {
  const wanted = { profnet_url: 'www.profnet.example/in/ADA/' };
  const before = await match(wanted, { first_name: 'Twin', last_name: 'Lovelace', company_name }, { profnet_url: 'x' });
  expect(before.status).toBe(200);
  expect(before.body.results).toMatchObject([
    { index: 0, status: 'matched', prospect: { _id: ada._id, work_email: 'a•••@engines.example' } },
    { index: 1, status: 'ambiguous', candidates: [{ _id: twins[1]!._id }, { _id: twins[0]!._id }] },
    { index: 2, status: 'none', matched_on: [] },
  ]);
  await app.db.transaction((sql) => insertUnlocks(sql, customer.id, [ada._id]));
  const { body } = await match(wanted);
  expect(body.results[0]).toMatchObject({ prospect: { work_email: ada.work_email }, matched_on: ['profnet_url'] });
});

test('a person without a profile URL needs both names and a company, and an e-mail address is not known', async () => {
  const { status, body } = await match(
    { profnet_url: ada.profnet_url },
    { first_name: 'Ada', last_name: 'Lovelace' },
    { profnet_url: ' ', last_name: 'Lovelace', company_name },
  );
  expect(status).toBe(400);
  expect(body.errors.map(({ path }: { path: string }) => path)).toEqual(['/people/1', '/people/2']);
  expect((await match({ work_email: ada.work_email })).status).toBe(400);
  const stranger = await customer.withScopes(['contacts:read']);
  expect((await stranger.post('/prospect/match', { people: [{ profnet_url: 'x' }] })).status).toBe(403);
});
