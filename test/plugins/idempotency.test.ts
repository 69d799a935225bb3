import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, unique } from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();

const create = (key: string, body: unknown = contactBody(), by = customer) =>
  by.post('/contacts', body, { 'idempotency-key': key });

const countContacts = async (of = customer): Promise<number> => {
  const [row] = await app.owner`select count(*)::int as contacts from contacts where customer_id = ${of.id}`;
  return row!['contacts'];
};

test('the same key belongs to one customer: another customer may use it too', async () => {
  const [a, b] = await Promise.all([app.customer(), app.customer()]);
  const [first, second] = [await create('shared', contactBody(), a), await create('shared', contactBody(), b)];
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.headers).not.toHaveProperty('idempotency-replayed');
  expect(second.body.data.id).not.toBe(first.body.data.id);
});

test('the same key of a failed request runs again', async () => {
  const absent = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  const key = unique('key');
  expect((await create(key, contactBody({ assigned_to: absent }))).status).toBe(404);
  expect((await create(key, contactBody({ assigned_to: customer.adminId }))).status).toBe(201);
});

test('the same key counts as new after 24 hours, and the new response is stored', async () => {
  const key = unique('key');
  const first = await create(key);
  await app.owner`
      update idempotency_records set created_at = ${new Date(Date.now() - 24 * 3_600_000 - 1_000)}
      where customer_id = ${customer.id} and key = ${key}`;
  const second = await create(key, contactBody({ job_title: 'other' }));
  expect(second.body.data.id).not.toBe(first.body.data.id);
  expect((await create(key, contactBody({ job_title: 'other' }))).body).toEqual(second.body);
});

test('the same key while its first request still runs is a conflict', async () => {
  const key = unique('key');
  const held = app.owner.begin(async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`idempotency:${customer.id}:${key}`}, 0))`;
    return create(key);
  });
  expect(await held).toMatchObject({ status: 409, body: { code: 'conflict' } });
  expect((await create(key)).status).toBe(201);
});

test.each(['', 'x'.repeat(256), 'ü', 'a\tb'])('the key %j is rejected', async (key) => {
  const before = await countContacts();
  expect(await create(key)).toMatchObject({ status: 400, body: { code: 'validation_failed' } });
  expect(await countContacts()).toBe(before);
});

test('a key is ignored by calls that create nothing', async () => {
  const { body } = await customer.post('/contacts', contactBody());
  const path = `/contacts/${body.data.id}`;
  for (const title of ['a', 'b'])
    expect((await customer.patch(path, { job_title: title }, { 'idempotency-key': 'k' })).status).toBe(200);
  expect((await customer.get(path)).body.job_title).toBe('b');
});
