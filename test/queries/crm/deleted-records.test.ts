import { describe, expect, test } from 'vitest';
import { removeIdempotencyRecords } from '../../../src/jobs/workers.ts';
import { purgeLists } from '../../../src/queries/crm/deletions.ts';
import { contextOf } from '../../jobs/working.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { companyBody, contactBody, make, makeList, opportunityBody } from '../../setup/factories.ts';
import { wrongCounts } from '../memberships/recount.ts';
import { addTotals } from '../../setup/journal.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

/** Creates a company of `count` contacts. Returns the ids of the company and of one contact. */
async function companyOf(count: number): Promise<[company: string, contact: string]> {
  const company = await make(customer, '/company', companyBody({ company_name: 'Acme', industry: 'Mining' }));
  const contact = await make(customer, '/contacts', contactBody({ company: { id: company } }));
  await app.owner`
    insert into contacts (customer_id, first_name, last_name, work_email, company_id, folded, terms)
    select customer_id, first_name, last_name, work_email, company_id, folded, terms
    from contacts, generate_series(2, ${count}::int)
    where customer_id = ${customer.id} and id = ${contact}`;
  await addTotals(app.owner, customer.id, { contacts: count - 1 });
  return [company, contact];
}

/** Makes the deletion of all companies and lists of the customer so old. */
async function age(days: number): Promise<void> {
  for (const table of ['companies', 'lists'])
    await app.owner`
      update ${app.owner(table)} set deleted_at = deleted_at - make_interval(days => ${days}) where customer_id = ${customer.id}`;
}

const total = async (path: string, filters: object): Promise<number> =>
  (await customer.post(`${path}/metadata`, { filters })).body.pagination.total_records;

const rowOf = async (contact: string) =>
  (
    await app.owner`select company_id, updated_at from contacts where customer_id = ${customer.id} and id = ${contact}`
  )[0]!;

test('a deleted company of very many contacts is gone for every read at once, and no contact is locked for it', async () => {
  const [company, contact] = await companyOf(2_500);
  const rules = [{ field: 'company.company_name', operator: 'equals', value: 'acme' }];
  const none = [{ field: 'company_id', operator: 'is_empty', value: '' }];
  for (const one of [rules, none]) await customer.post('/list-contact', { name: 'List', rules: one });
  const deal = await make(customer, '/opportunities', await opportunityBody(customer, { company_id: company }));
  expect(await wrongCounts(customer, app.owner)).toEqual([]);
  const before = (await customer.get(`/contacts/${contact}`)).headers['etag'] as string;
  const writer = await app.owner.reserve();
  await writer`begin`;
  await writer`select from contacts where customer_id = ${customer.id} for update`;
  expect((await customer.delete(`/company/${company}`)).status).toBe(200);
  await writer`rollback`;
  writer.release();

  expect(await wrongCounts(customer, app.owner)).toEqual([]);
  expect((await customer.get(`/company/${company}`)).body).toBeNull();
  expect(await total('/company', { company_name: 'Acme' })).toBe(0);
  const refer = { company: { id: company } };
  expect((await customer.post('/contacts', contactBody(refer))).status).toBe(404);
  expect((await customer.patch(`/contacts/${contact}`, refer)).status).toBe(404);
  const body = await opportunityBody(customer, { company_id: company });
  expect((await customer.post('/opportunities', body)).status).toBe(404);
  expect((await customer.get(`/opportunities/${deal}`)).body.company_id).toBeNull();
  const deals = await customer.post('/opportunities/list', { filters: { company_id: company } });
  expect(deals.body).toEqual([]);
  expect((await customer.patch(`/contacts/${contact}`, { gender: 'x' }, { 'if-match': before })).status).toBe(412);
  const shown = (await customer.get(`/contacts/${contact}`)).body;
  expect(shown.company).toEqual({ id: null, external_id: null, company_name: '', industry: '' });
  expect(await total('/contacts', { company_id: company })).toBe(0);
  expect(await total('/contacts', { company_id: null })).toBe(2_500);
  expect(await total('/contacts', { search: 'acme' })).toBe(0);
  const renewed = await make(customer, '/contacts', contactBody({ company: { name: 'Acme' } }));
  expect((await customer.get(`/contacts/${renewed}`)).body.company.id).not.toBe(company);
});

describe('references to a deleted company', () => {
  test('stay for HISTORY_DAYS, then the sweep clears them without a change of the records', async () => {
    const [company, contact] = await companyOf(1);
    const deal = await make(customer, '/opportunities', await opportunityBody(customer, { company_id: company }));
    await customer.delete(`/company/${company}`);
    const before = [
      (await customer.get(`/contacts/${contact}`)).body,
      (await customer.get(`/opportunities/${deal}`)).body,
    ];
    await age(89);
    await removeIdempotencyRecords(contextOf(app), {});
    expect((await rowOf(contact))['company_id']).toBe(company);
    await age(2);
    await removeIdempotencyRecords(contextOf(app), {});
    expect((await rowOf(contact))['company_id']).toBeNull();
    expect((await app.owner`select from companies where customer_id = ${customer.id}`).count).toBe(0);
    const after = [
      (await customer.get(`/contacts/${contact}`)).body,
      (await customer.get(`/opportunities/${deal}`)).body,
    ];
    expect(after).toEqual(before);
  });

  test.each([
    ['a PATCH', (id: string) => customer.patch(`/contacts/${id}`, { gender: 'x' })],
    ['a batch', (id: string) => customer.post('/contacts/batch/update', { items: [{ id, gender: 'x' }] })],
  ])('stay through %s of other fields, and none is what the contact has', async (_, change) => {
    const [company, contact] = await companyOf(1);
    await customer.delete(`/company/${company}`);
    expect((await change(contact)).status).toBe(200);
    expect((await rowOf(contact))['company_id']).toBe(company);
    const { body } = await customer.post('/contacts/batch/update', { items: [{ id: contact, company: null }] });
    expect(body.data.counts).toMatchObject({ unchanged: 1 });
    const other = { company: { name: 'Other' } };
    expect((await customer.patch(`/contacts/${contact}`, other)).status).toBe(200);
    expect((await customer.patch(`/contacts/${contact}`, { company: null })).status).toBe(200);
    expect((await rowOf(contact))['company_id']).toBeNull();
  });
});

test('the members of a deleted list are removed after HISTORY_DAYS, at most 1,000 in a transaction, and none that others hold', async () => {
  const [, contact] = await companyOf(1_500);
  const list = await makeList(app.fastify, customer);
  await app.owner`
    insert into list_members (customer_id, list_id, contact_id)
    select customer_id, ${list}, id from contacts where customer_id = ${customer.id}`;
  await customer.delete(`/list-contact/${list}`);
  const purge = () => app.db.transaction((sql) => purgeLists(sql, 90));
  expect(await purge()).toBe(0);
  await age(91);
  const writer = await app.owner.reserve();
  await writer`begin`;
  await writer`delete from list_members where customer_id = ${customer.id} and contact_id = ${contact}`;
  expect([await purge(), await purge(), await purge()]).toEqual([1_000, 499, 0]);
  await writer`commit`;
  writer.release();
  expect([await purge(), await purge()]).toEqual([1, 0]);
  expect((await app.owner`select from lists where customer_id = ${customer.id}`).count).toBe(0);
});

test('hidden activities are deleted after HISTORY_DAYS, and others stay', async () => {
  const [company, contact] = await companyOf(1);
  const body = 'Wants a second engine';
  await make(customer, '/activities', { body, contact_id: contact });
  const shared = await make(customer, '/activities', { body, contact_id: contact, company_id: company });
  await customer.delete(`/contacts/${contact}`);
  const age = (days: number) => app.owner`
    update activities set hidden_at = hidden_at - make_interval(days => ${days}) where customer_id = ${customer.id}`;
  const rows = async () =>
    (await app.owner<{ id: string }[]>`select id from activities where customer_id = ${customer.id}`).map(
      ({ id }) => id,
    );
  await age(89);
  await removeIdempotencyRecords(contextOf(app), {});
  expect(await rows()).toHaveLength(2);
  await age(2);
  await removeIdempotencyRecords(contextOf(app), {});
  expect(await rows()).toEqual([shared]);
});
