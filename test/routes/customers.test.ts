import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { makeUser } from '../setup/factories.ts';

const { fastify: app, owner, customer } = await startApp();

test('GET /customer/summary shows the initial state of a new customer, and the key that asks without its value', async () => {
  const { id, withScopes } = await customer();
  const permissions = ['customer:read', 'contacts:read'] as const;
  const { key, keyId, get } = await withScopes([...permissions]);
  const answer = await get('/customer/summary');
  expect(answer.status).toBe(200);
  expect(JSON.stringify(answer.body)).not.toContain(key);
  const spend_caps = { subscription: null, verification: null };
  expect(answer.body).toEqual({
    customer: { id, business_name: expect.stringMatching(/^Customer-/), status: 'OK', country: null, city: null },
    users_count: 1,
    subscription: {
      id: expect.any(String),
      status: 'active',
      balance: 0,
      price: '0.00',
      periodicity: 'monthly',
      currency: 'usd',
      tier: { id: expect.any(String), title: 'Free', tier: 0, is_free: true, price: '0.00' },
      active_seats: 1,
    },
    api_key: expect.objectContaining({ id: keyId, status: 'active', permissions, spend_caps }),
  });
});

test('GET /customer/summary shows location, price with two decimals, currency in lower case, all users, and active ones as seats', async () => {
  const { id, get } = await customer();
  const userId = await makeUser(app, id);
  await makeUser(app, id);
  await owner`update users set active = false where id = ${userId}`;
  await owner`update subscriptions set price = 1249.5, currency = 'EUR' where customer_id = ${id}`;
  await owner`update customers set country = 'GB', city = 'Bristol' where id = ${id}`;
  expect((await get('/customer/summary')).body).toMatchObject({
    customer: { country: 'GB', city: 'Bristol' },
    users_count: 3,
    subscription: { active_seats: 2, price: '1249.50', currency: 'eur' },
  });
});

test("GET /customer/users lists only the customer's users, newest first, without secrets", async () => {
  const [mine, theirs] = [await customer(), await customer()];
  const member = await makeUser(app, mine.id, 'member');
  await owner`update users set active = false where id = ${member}`;
  const answer = await mine.get('/customer/users');
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual([
    { id: member, name: 'User', email: expect.stringContaining('@'), role: 'member', active: false },
    { id: mine.adminId, name: 'Admin', email: expect.stringContaining('@'), role: 'admin', active: true },
  ]);
  expect(JSON.stringify(answer.body)).not.toContain(theirs.adminId);
});
