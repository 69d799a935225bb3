import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { creditsOf, customerWith, select } from '../jobs/calls.ts';
import { startApp } from '../setup/app.ts';

const app = await startApp({ UNLOCK_COST: '3' });

test('credits are shown by pool and in the summary, without the reserved ones', async () => {
  const customer = await customerWith(app, { subscription: 100, verification: 50 });
  await select(customer, { ids: [randomUUID()] });
  expect(await creditsOf(customer)).toEqual({
    subscription: { balance: 97, reserved: 3 },
    verification: { balance: 50, reserved: 0 },
  });
  expect((await customer.get('/customer/summary')).body.subscription.balance).toBe(97);
});

test('credits have a ledger, newest first, page by page', async () => {
  const customer = await customerWith(app, { subscription: 100, verification: 50 });
  const { id } = (await select(customer, { ids: [randomUUID()] })).body;
  await customer.post(`/service-handler/${id}/cancel`);
  const ledger = (paginate: object) => customer.post('/customer/credits/ledger', { paginate });
  const { body, headers } = await ledger({ limit: 3 });
  const entry = { id: expect.any(String), pool: 'subscription', note: null, created_at: expect.any(String) };
  expect(body).toEqual([
    { ...entry, kind: 'release', amount: 3, balance_after: 100, reserved_after: 0, job_id: id },
    { ...entry, kind: 'reserve', amount: 3, balance_after: 97, reserved_after: 3, job_id: id },
    { ...entry, pool: 'verification', kind: 'grant', amount: 50, balance_after: 50, reserved_after: 0, job_id: null },
  ]);
  const rest = await ledger({ limit: 3, cursor: headers['x-next-cursor'] });
  expect(rest.body).toMatchObject([{ pool: 'subscription', kind: 'grant', amount: 100 }]);
  expect(rest.headers).not.toHaveProperty('x-next-cursor');
  expect((await ledger({ limit: 3, page: 2 })).body).toEqual(rest.body);
  expect(
    (
      await app
        .customer()
        .then((other) => other.post('/customer/credits/ledger', { paginate: { cursor: headers['x-next-cursor'] } }))
    ).status,
  ).toBe(400);
});
