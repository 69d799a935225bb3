import { expect, test } from 'vitest';
import { lockForBatches } from '../../../src/queries/imports/import-locks.ts';
import { startApp } from '../../setup/app.ts';
import { contactBody, make } from '../../setup/factories.ts';
import { holdValue, isHeld, waiting } from '../../setup/value-locks.ts';

const app = await startApp();

// A value that a later batch of the transaction locks late makes a deadlock with another writer.
test('several batches of one transaction lock the names of all companies at once, also of one that is renamed meanwhile', async () => {
  const customer = await app.customer();
  const acme = await make(customer, '/company', { company_name: 'Acme', type: 'x' });
  const bolt = await holdValue(app, customer, { kind: 'company_name', value: 'bolt' });
  const items = ['Acme', 'Bolt'].map((company) => contactBody({ company: { name: company } }));
  const isAcmeHeld = app.db.transaction(async (sql) => {
    await lockForBatches(sql, customer.id, { object: 'contacts', match: null }, items);
    return isHeld(app, customer, { kind: 'company_name', value: 'acme' });
  });
  await expect.poll(() => waiting(app), { timeout: 20_000 }).toBe(1);
  expect((await customer.patch(`/company/${acme}`, { company_name: 'Zenith' })).status).toBe(200);
  await bolt.release();
  expect(await isAcmeHeld).toBe(true);
});

test('several batches of one transaction lock all external ids at once, also those of a later record of the same person', async () => {
  const customer = await app.customer();
  const items = ['first', 'second'].map((external_id) => contactBody({ work_email: 'ada@example.com', external_id }));
  const held = await app.db.transaction(async (sql) => {
    await lockForBatches(sql, customer.id, { object: 'contacts', match: 'work_email' }, items);
    return Promise.all(['first', 'second'].map((value) => isHeld(app, customer, { kind: 'external_id', value })));
  });
  expect(held).toEqual([true, true]);
});
