import { expect, test } from 'vitest';
import { startApp } from '../../setup/app.ts';
import { contactBody, make } from '../../setup/factories.ts';
import { holdLock, waiting } from '../../setup/bulk-lock.ts';

const app = await startApp();

test('a batch that finds a company while it is renamed does not create it again', async () => {
  const customer = await app.customer();
  const acme = await make(customer, '/company', { company_name: 'Acme', type: 'x' });
  const names = await holdLock(app, customer, 'names');
  // Finds Acme, then waits to make the other company.
  const created = customer.post('/contacts/batch/create', {
    items: ['Acme', 'Bolt'].map((company) => contactBody({ company: { name: company } })),
  });
  await expect.poll(() => waiting(app), { timeout: 20_000 }).toBe(1);
  expect((await customer.patch(`/company/${acme}`, { company_name: 'Zenith' })).status).toBe(200);
  await names.release();
  expect((await created).body.data.counts.created).toBe(2);
  const { body: companies } = await customer.post('/company/list', {});
  expect(companies.map(({ company_name }: { company_name: string }) => company_name).toSorted()).toEqual([
    'Bolt',
    'Zenith',
  ]);
  const { body: contacts } = await customer.post('/contacts/list', { filters: { company_id: acme } });
  expect(contacts).toHaveLength(1);
});
