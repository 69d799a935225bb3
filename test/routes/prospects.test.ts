import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';

const app = await startApp();
let customer: TestCustomer;
const people = Array.from({ length: 30 }, (_, i) =>
  person({ score: i, first_name: i % 2 === 0 ? 'Zoë' : 'Ada', job_title: i % 3 === 0 ? 'Head of Sales' : 'Engineer' }),
);
const best = people.toReversed();

beforeAll(async () => {
  customer = await app.customer();
  await app.catalog.prepare();
  await writePeople(app.catalog, people);
  await app.catalog.finish();
});

const list = (body: object, by = customer) => by.post('/prospect/list', body);
const ids = (rows: Prospect[]) => rows.map(({ _id }) => _id);

async function unlock(by: TestCustomer, unlocked: Prospect[]): Promise<void> {
  await app.db.transaction((sql) => insertUnlocks(sql, by.id, ids(unlocked)));
  await app.catalog.syncUnlocks(ids(unlocked));
  await app.catalog.refresh();
}

test('a list is 201, best first, with 25 prospects by default', async () => {
  const answer = await list({});
  expect(answer.status).toBe(201);
  expect(ids(answer.body)).toEqual(ids(best.slice(0, 25)));
  expect(ids((await list({ paginate: { page: 2 } })).body)).toEqual(ids(best.slice(25)));
  expect((await list({ paginate: { page: 3 } })).body).toEqual([]);
});

test('contact data of a person is masked until the customer has unlocked the person, and then clear for that customer at once', async () => {
  const [one, other] = [await app.customer(), await app.customer()];
  const masked = {
    ...best[0],
    work_email: 'a•••@engines.example',
    emails: ['a•••@engines.example'],
    mobile_phone: '••••••••••••••00',
  };
  expect((await list({}, one)).body[0]).toEqual(masked);
  await app.db.transaction((sql) => insertUnlocks(sql, one.id, [best[0]!._id]));
  expect((await list({ all_contacts: true }, one)).body[0]).toEqual(best[0]);
  expect((await list({ all_contacts: true }, other)).body[0]).toEqual(masked);
});

test('unlocked prospects are left out unless all_contacts is true', async () => {
  const one = await app.customer();
  await unlock(one, best.slice(0, 10));
  expect(ids((await list({ all_contacts: false }, one)).body)).toEqual(ids(best.slice(10)));
  expect((await one.post('/prospect/metadata', {})).body.pagination.total_records).toBe(20);
  expect((await one.post('/prospect/metadata', { all_contacts: true })).body.pagination.total_records).toBe(30);
});

test('metadata counts the prospects on all pages and returns the filters as understood', async () => {
  const answer = await customer.post('/prospect/metadata', {
    filters: { first_name: ['ZOE'], date_verified: { gte: '2025-01-01T00:00:00+02:00' }, score: { gte: 2 } },
    paginate: { page: 2, limit: 10 },
  });
  expect(answer.status).toBe(201);
  const nothing = { last_name: [], job_title: [], job_company_name: [], job_company_industry: [] };
  const nowhere = { location_locality: [], location_region: [], location_country: [], location_postal_code: [] };
  expect(answer.body).toEqual({
    pagination: { current_page: 2, total_records: 14, total_pages: 2 },
    filters_applied: {
      first_name: ['ZOE'],
      ...nothing,
      ...nowhere,
      date_verified: { gte: '2024-12-31T22:00:00.000Z', lte: null },
      score: { gte: 2 },
    },
  });
  const again = await customer.post('/prospect/metadata', { filters: answer.body.filters_applied });
  expect(again.body.pagination.total_records).toBe(14);
  expect(again.body.filters_applied).toEqual(answer.body.filters_applied);
});

test('a cursor with other filters, another order, another all_contacts, of another customer or with a page is 400, and so is one on metadata', async () => {
  const paginate = { limit: 10, cursor: (await list({ paginate: { limit: 10 } })).headers['x-next-cursor'] };
  expect((await list({ paginate })).status).toBe(201);
  expect((await list({ paginate: { ...paginate, limit: 25 } })).status).toBe(201);
  for (const body of [
    { paginate, filters: { first_name: ['ada'] } },
    { paginate, order_by: { score: 'ASC' } },
    { paginate, all_contacts: true },
    { paginate: { ...paginate, page: 1 } },
    { paginate: { ...paginate, cursor: 'nonsense' } },
  ])
    expect((await list(body)).status).toBe(400);
  expect((await list({ paginate }, await app.customer())).status).toBe(400);
  expect((await customer.post('/prospect/metadata', { paginate })).status).toBe(400);
});

test('pages beyond 10,000 prospects are 400 with a hint at the cursor', async () => {
  for (const path of ['/prospect/list', '/prospect/metadata']) {
    expect((await customer.post(path, { paginate: { page: 100, limit: 100 } })).status).toBe(201);
    const answer = await customer.post(path, { paginate: { page: 101, limit: 100 } });
    expect([answer.status, answer.body.errors[0].path]).toEqual([400, '/paginate/page']);
    expect(answer.body.message).toContain('cursor');
  }
});

test('invalid dates, unknown orders and more words than one search takes are 400 with a pointer', async () => {
  for (const [body, path] of [
    [{ filters: { date_verified: { gte: '2026-02-30T00:00:00Z' } } }, '/filters/date_verified/gte'],
    [{ filters: { date_verified: { gte: '2026-01-01' } } }, '/filters/date_verified/gte'],
    [{ order_by: { work_email: 'ASC' } }, '/order_by/work_email'],
    [{ filters: { job_title: Array.from({ length: 100 }, (_, i) => `${i} a b c d e f g h i`) } }, '/filters'],
  ] as const) {
    const answer = await list(body);
    expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([400, path]);
  }
});

test('suggestions are 201 with type and value', async () => {
  const answer = await customer.post('/prospect/filters', { source: 'job_title', search: 'sal' });
  expect([answer.status, answer.body]).toEqual([201, [{ type: 'job_title', value: 'Head of Sales' }]]);
  expect((await customer.post('/prospect/filters', { source: 'all' })).body.length).toBeLessThanOrEqual(10);
  for (const body of [{}, { source: 'work_email' }, { source: 'all', search: 'x'.repeat(101) }, { search: 'x' }])
    expect((await customer.post('/prospect/filters', body)).status).toBe(400);
});

test('text from a caller is never read as query syntax', async () => {
  for (const text of [
    "'; drop table prospects; --",
    '*',
    '.*',
    '"',
    '\\',
    '{"match_all":{}}',
    "a':* | b",
    '(',
    '/a/',
    randomUUID(),
  ]) {
    expect((await list({ filters: { first_name: [text], job_title: [text] } })).status).toBe(201);
    expect((await list({ filters: { first_name: [text] } })).body).toEqual([]);
    expect((await customer.post('/prospect/filters', { source: 'all', search: text })).status).toBe(201);
  }
  expect((await list({})).body).toHaveLength(25);
});
