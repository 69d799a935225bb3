import { expect, test } from 'vitest';
import { startApp } from '../../setup/app.ts';
import { contactBody, make } from '../../setup/factories.ts';
import { holdValue, waiting } from '../../setup/value-locks.ts';

const app = await startApp();

test('two writes that find a company while it is renamed do not create it again', async () => {
  const customer = await app.customer();
  const acme = await make(customer, '/company', { company_name: 'Acme', type: 'x' });
  const locks = await Promise.all(
    ['bolt', 'coil'].map((value) => holdValue(app, customer, { kind: 'company_name', value })),
  );
  const create = (name: string) =>
    customer.post('/contacts/batch/create', {
      items: ['Acme', name].map((company) => contactBody({ company: { name: company } })),
    });
  // Both find Acme, then wait for the name of their other company.
  const [first, second] = [create('Bolt'), create('Coil')];
  await expect.poll(() => waiting(app), { timeout: 20_000 }).toBe(2);
  expect((await customer.patch(`/company/${acme}`, { company_name: 'Zenith' })).status).toBe(200);
  for (const lock of locks) await lock.release();
  for (const { body } of await Promise.all([first, second])) expect(body.data.counts.created).toBe(2);
  const { body: companies } = await customer.post('/company/list', {});
  expect(companies.map(({ company_name }: { company_name: string }) => company_name).toSorted()).toEqual([
    'Bolt',
    'Coil',
    'Zenith',
  ]);
  const { body: contacts } = await customer.post('/contacts/list', { filters: { company_id: acme } });
  expect(contacts).toHaveLength(2);
});
