import { beforeAll, beforeEach, expect, test } from 'vitest';
import { jobBatches } from '../../src/jobs/job-batches.ts';
import { settleCompanies } from '../../src/jobs/settle-companies.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { person, writePeople } from '../catalog/people.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { companyBody, contactBody, make, unique, type TestCustomer } from '../setup/factories.ts';
import { randomDomain, startNameServer } from '../setup/name-server.ts';
import { recount } from '../queries/memberships/recount.ts';
import { customerWith } from './calls.ts';
import { startSelected, startUnlock, readJob } from './spending.ts';
import { contextOf } from './working.ts';

// Customers with very many lists whose rules all match. A transaction that writes all memberships of many contacts would
// lock them, and what others wait for, for many seconds.

const names = await startNameServer();
let app: TestApp;
let customer: TestCustomer;

beforeAll(async () => {
  app = await startApp({ VERIFY_DNS_SERVERS: names.address });
  await app.catalog.prepare();
});
beforeEach(async () => {
  customer = await customerWith(app, { subscription: 1_000, verification: 1_000 });
});

const lists = 200;
/** Contacts whose memberships are more than one transaction writes. */
const contacts = 120;
/** The memberships by rule that one transaction writes at most. */
const atMost = 10_000;

/** Creates lists with this rule. */
async function makeLists(rule: object): Promise<void> {
  const { body } = await customer.post('/list-contact', { name: 'First', rules: [rule] });
  await app.owner`
    insert into lists (customer_id, name, owner_id, rules)
    select customer_id, name || n, owner_id, rules
    from lists, generate_series(2, ${lists}::int) n
    where customer_id = ${customer.id} and id = ${body.id}`;
}

/** Runs turns of a customer's jobs until this one has ended. */
async function complete(queue: 'unlock' | 'verify', id: string): Promise<void> {
  while ((await readJob(customer, id)).finished_at === null)
    await takeTurn(queue, jobBatches)(contextOf(app), { customerId: customer.id });
  expect(await readJob(customer, id)).toMatchObject({ status: 'COMPLETED', failed: 0 });
}

/** Expects all contacts to be in all lists, by transactions of bounded size, and exact counts. */
async function expectWrittenInParts(): Promise<void> {
  const parts = await app.owner<{ members: number }[]>`
    select count(*)::integer as members
    from list_members
    where customer_id = ${customer.id} and by_rule
    group by xmin::text`;
  const sizes = parts.map(({ members }) => members);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(lists * contacts);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(atMost);
  const { lists: counted } = await recount(app.owner, customer.id);
  expect(new Set(counted.map(({ kept }) => kept))).toEqual(new Set([contacts]));
}

async function makePeople(): Promise<{ ids: string[]; filters: object }> {
  const last_name = unique('Name');
  const people = Array.from({ length: contacts }, (_, i) =>
    person({ last_name, work_email: `${last_name}${i}@x.example`, emails: [] }),
  );
  await writePeople(app.catalog, people);
  await app.catalog.finish();
  return { ids: people.map(({ _id }) => _id), filters: { last_name: [last_name] } };
}

test('an unlock by filters writes few memberships in one transaction', async () => {
  await makeLists({ field: 'last_name', operator: 'contains', value: 'name' });
  const { filters } = await makePeople();
  await complete('unlock', await startUnlock(customer, { filters, total_records: contacts, sync_crm: true }));
  await expectWrittenInParts();
});

test('an unlock of selected prospects writes few memberships in one transaction', async () => {
  await makeLists({ field: 'last_name', operator: 'contains', value: 'name' });
  const { ids } = await makePeople();
  await complete('unlock', await startSelected(customer, ids, true));
  await expectWrittenInParts();
});

const create = async (body: object): Promise<void> => {
  const items = Array.from({ length: contacts }, (_, i) => contactBody({ work_email: `ada${i}@x.example`, ...body }));
  expect((await customer.post('/contacts/batch/create', { items })).body.data.counts.created).toBe(contacts);
};

test('the outcome of an e-mail that many contacts have is saved with few memberships in one transaction', async () => {
  await makeLists({ field: 'verification_status', operator: 'equals', value: 'invalid' });
  const all = (await customer.post('/list-contact', { name: 'All' })).body.id;
  await create({ work_email: `ada@${randomDomain()}`, list_ids: [all] });
  await complete('verify', (await customer.post(`/list-contact/verify-contacts/${all}`)).body.data.id);
  await expectWrittenInParts();
});

test.each<['renamed' | 'merged' | 'deleted', object]>([
  ['renamed', { field: 'company.company_name', operator: 'equals', value: 'after' }],
  ['merged', { field: 'company.company_name', operator: 'equals', value: 'after' }],
  ['deleted', { field: 'company_id', operator: 'is_empty', value: '' }],
])('a %s company changes few memberships in one transaction, also those of its first batch', async (what, rule) => {
  const company = await make(customer, '/company', companyBody({ company_name: 'Before' }));
  await makeLists(rule);
  await create({ company: { id: company } });
  const id = await make(customer, '/company', companyBody({ company_name: 'After' }));
  const changes = {
    renamed: () => customer.patch(`/company/${company}`, { company_name: 'After' }),
    merged: () => customer.post('/company/merge', { id, merge_ids: [company] }),
    deleted: () => customer.delete(`/company/${company}`),
  };
  expect((await changes[what]()).status).toBe(200);
  // Reads are exact before workers have written the memberships.
  const filters = { list_id: (await customer.post('/list-contact/list', {})).body[0].id };
  const { body } = await customer.post('/contacts/metadata', { filters });
  expect(body.pagination.total_records).toBe(contacts);
  await settleCompanies()(contextOf(app), { customerId: customer.id });
  await expectWrittenInParts();
});
