import { expect, test } from 'vitest';
import { writeCompanyBatch } from '../../../src/queries/crm/company-batches.ts';
import { lockForBatches } from '../../../src/queries/imports/import-locks.ts';
import { settleBatch } from '../../../src/queries/memberships/company-settlements.ts';
import { withLastWrites } from '../../../src/queries/records/last-writes.ts';
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

test('several batches of one transaction lock the contacts of all their companies at once, where lists have rules', async () => {
  const customer = await app.customer();
  const rules = [{ field: 'company.industry', operator: 'equals', value: 'Steel' }];
  expect((await customer.post('/list-contact', { name: 'Steel', rules })).status).toBe(201);
  const names = ['first', 'second'];
  for (const name of names) {
    const id = await make(customer, '/company', { company_name: name, type: 'x', external_id: name });
    expect((await customer.post('/contacts', contactBody({ company: { id } }))).status).toBe(201);
  }
  const free = await app.db.transaction((sql) =>
    withLastWrites(sql, customer.id, async (last) => {
      const items = names.map((external_id) => ({ external_id, industry: 'Steel' }));
      await lockForBatches(sql, customer.id, { object: 'companies', match: 'external_id' }, items, last);
      return app.owner`select from contacts where customer_id = ${customer.id} for no key update skip locked`;
    }),
  );
  expect(free.count).toBe(0);
});

test('several batches of one transaction leave to workers what is too much for all of them, also if one has only few', async () => {
  const customer = await app.customer();
  const rules = [{ field: 'company.industry', operator: 'equals', value: 'Steel' }];
  expect((await customer.post('/list-contact', { name: 'Steel', rules })).status).toBe(201);
  const names = ['first', 'second'];
  for (const name of names) {
    const id = await make(customer, '/company', { company_name: name, type: 'x', external_id: name });
    const contact = await make(customer, '/contacts', contactBody({ company: { id } }));
    await app.owner`
      insert into contacts (customer_id, first_name, last_name, work_email, company_id, folded, terms)
      select customer_id, first_name, last_name, work_email, company_id, folded, terms
      from contacts, generate_series(1, 300)
      where customer_id = ${customer.id} and id = ${contact}`;
  }
  const free = await app.db.transaction((sql) =>
    withLastWrites(sql, customer.id, async (last) => {
      const items = names.map((external_id) => ({ external_id, industry: 'Steel' }));
      await lockForBatches(sql, customer.id, { object: 'companies', match: 'external_id' }, items, last);
      const batch = { operation: 'update', match: 'external_id', isAtomic: false } as const;
      for (const item of items) await writeCompanyBatch(sql, customer.id, { ...batch, items: [item] }, last);
      return app.owner`select from contacts where customer_id = ${customer.id} for no key update skip locked`;
    }),
  );
  expect(free.count).toBe(301);
  while (await app.db.transaction((sql) => settleBatch(sql, customer.id, 1_000)).then((outcome) => outcome === 'more'));
  const [list] = (await customer.post('/list-contact/list', {})).body;
  expect(list.contacts_count).toBe(602);
});
