import { beforeAll, expect, test } from 'vitest';
import { maxNewest } from '../../src/filters/narrowing.ts';
import { companyFilterFields } from '../../src/schemas/companies.ts';
import { contactFilterFields } from '../../src/schemas/contacts.ts';
import { indexed } from '../../src/schemas/filters.ts';
import { scopes } from '../../src/schemas/scopes.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { isOnCitus } from '../setup/database.ts';
import { clientOf, contactBody, opportunityBody, productBody, unique } from '../setup/factories.ts';
import type { Answer, TestCustomer } from '../setup/factories.ts';
import { visitorOf } from '../pages/visitor.ts';
import { addBeginners, fillTenants, unequal } from '../setup/tenants.ts';
import { appWithPlans, readingsOf } from '../setup/watched-plans.ts';

// Measures the rows that every call and job reads, with 92,000 contacts of 20 unequal customers. What the planner does for
// customers that it does not know yet: plans-after-load.test.ts.

const rules = Array.from({ length: 13 }, (_, i) => [
  { field: 'location_country', operator: 'equals', value: 'DE' },
  { field: 'company.industry', operator: 'contains', value: `industry ${i}` },
  { field: 'score', operator: 'greater_than', value: '50', logic_operator: 'OR' },
]);

/** Ids of records of one customer. */
type Ids = Record<'contact' | 'company' | 'list' | 'product' | 'opportunity' | 'pipeline' | 'job', string>;

type Call = (customer: TestCustomer, ids: Ids) => Promise<Answer>;

/** Hand-made members of the longest list: what is not kept is counted. */
const membersOfList = 12_000;

/** Contacts and companies of the largest customer: the count of a list with rules evaluates each contact once. */
const contactsOfCustomer = 35_000;

/** A call that sends these; `:list` and the like in its path or body stand for the id of such a record. */
const sends = (request: string, body?: object): Call => {
  const [method, path] = request.split(' ') as [string, string];
  return (one, ids) => {
    const fill = (text: string) =>
      text.replaceAll(
        /:(contact|company|list|product|opportunity|pipeline|job)\b/g,
        (_, kind) => ids[kind as keyof Ids],
      );
    return one.call(method, fill(path), body && (JSON.parse(fill(JSON.stringify(body))) as object));
  };
};

const deal = {
  products: [{ id: ':product', price: 1, quantity: 1 }],
  contacts_ids: [':contact'],
  company_id: ':company',
};

/**
 * Every call with an API key, and the maximum number of table rows that it may read. Calls that process all of
 * something are not listed.
 */
const calls: [string, number, Call][] = [
  ['the summary', 100, sends('GET /customer/summary')],
  ['a page of contacts', 200, sends('POST /contacts/list', {})],
  ['the number of contacts', 100, sends('POST /contacts/metadata', {})],
  ['contacts by e-mail', 100, sends('POST /contacts/list', { filters: { work_email: '7@example.com' } })],
  [
    'a second page of contacts by status',
    maxNewest + 1_000,
    sends('POST /contacts/list', { filters: { verification_status: 'verified' }, paginate: { page: 2 } }),
  ],
  ['a page of a list', 1_000, sends('POST /contacts/list', { filters: { list_id: ':list' } })],
  ['the number in a list', membersOfList, sends('POST /contacts/metadata', { filters: { list_id: ':list' } })],
  ['contacts by time of change', 200, sends('POST /contacts/list', { order_by: { updated_at: 'DESC' } })],
  ['contacts by name', 200, sends('POST /contacts/list', { order_by: { last_name: 'ASC' } })],
  ['a new contact', 200, sends('POST /contacts', contactBody({ list_ids: [':list'], company: { id: ':company' } }))],
  ['a new contact of a named company', 200, sends('POST /contacts', contactBody({ company: { name: 'Company 7' } }))],
  ['a change of a contact', 200, sends('PATCH /contacts/:contact', { job_title: 'Countess' })],
  ['other lists of a contact', 200, sends('PATCH /contacts/:contact', { list_ids: [':list'] })],
  ['a page of companies', 200, sends('POST /company/list', {})],
  ['the number of companies', 100, sends('POST /company/metadata', {})],
  ['a new company', 100, sends('POST /company', { type: 'customer', company_name: 'New' })],
  ['a new name of a company', 500, sends('PATCH /company/:company', { company_name: 'Renamed' })],
  ['a page of lists', contactsOfCustomer, sends('POST /list-contact/list', {})],
  ['a list', membersOfList, sends('GET /list-contact/:list')],
  ['a page of changes', 2_000, sends('POST /changes/list', {})],
  ['a page of products', 2_000, sends('POST /products/list', {})],
  ['a new product', 50, sends('POST /products', productBody())],
  ['a page of opportunities', 500, sends('POST /opportunities/list', {})],
  [
    'a new opportunity',
    200,
    async (one, ids) => sends('POST /opportunities', await opportunityBody(one, deal))(one, ids),
  ],
  [
    'other lines of an opportunity',
    200,
    sends('PATCH /opportunities/:opportunity', { products: { update: [{ id: ':product', quantity: 2 }] } }),
  ],
  ['a page of the ledger', 100, sends('POST /customer/credits/ledger', {})],
  ['a page of jobs', 2_000, sends('POST /service-handler/list', {})],
  ["a page of a job's results", 100, sends('POST /service-handler/:job/results', {})],
  ['the start of a job', 200, sends('POST /service-handler/unlock-selected-contacts', { ids: [':contact'] })],
  ['the end of an opportunity', 200, sends('DELETE /opportunities/:opportunity')],
  ['the end of a contact', 200, sends('DELETE /contacts/:contact')],
  ['the end of a company', 500, sends('DELETE /company/:company')],
];

let testApp: TestApp;
let watched: Awaited<ReturnType<typeof appWithPlans>>;
/** A large, a medium and a small one. */
let customers: TestCustomer[] = [];
/** Those with rows of every customer: the queue's own, and that of the tiers, are short. */
let tables: Set<string>;

beforeAll(async () => {
  if (isOnCitus()) return;
  testApp = await startApp();
  const made: TestCustomer[] = [];
  for (let i = 0; i < 20; i += 1) made.push(await testApp.customer());
  for (const [i, rule] of rules.entries()) await made[0]!.post('/list-contact', { name: `Rules ${i}`, rules: rule });
  await addBeginners(testApp.owner);
  await fillTenants(testApp.owner, unequal(made.map(({ id }) => id)));
  await testApp.owner`vacuum analyze`;
  customers = [made[0]!, made[3]!, made[19]!];
  const rows = await testApp.owner<{ name: string }[]>`
    select table_name as name
    from information_schema.columns
    where table_schema = 'public' and column_name = 'customer_id'`;
  tables = new Set(['customers', ...rows.map(({ name }) => name)]);

  watched = await appWithPlans(testApp.url);
}, 300_000);

/** Some records of a customer, from the middle of what they have. */
async function idsOf({ id }: TestCustomer): Promise<Ids> {
  const [ids] = await testApp.owner<[Ids]>`
    select
      (select id from contacts where customer_id = ${id} offset 500 limit 1) as contact,
      (select id from companies where customer_id = ${id} offset 50 limit 1) as company,
      (select id from lists where customer_id = ${id} and name in ('Large', 'Renamed') limit 1) as list,
      line.product_id as product,
      line.opportunity_id as opportunity,
      (select id from pipelines where customer_id = ${id} limit 1) as pipeline,
      (select id from jobs where customer_id = ${id} and type = 'unlock_contacts' offset 10 limit 1) as job
    from opportunity_lines line
    join products p on p.customer_id = line.customer_id and p.id = line.product_id
    where line.customer_id = ${id} and p.deleted_at is null
    limit 1`;
  return ids;
}

/** Now and then the keys used since are noted, all at once: that is no call's. */
const byTheClock = 'set last_used_at';

/** Holds what was run since the last look to plans. */
function expectPlans(most: number): void {
  const plans = watched.watch.take().filter(({ text }) => !text.includes(byTheClock));
  expect(plans.length).toBeGreaterThan(1); // the key's look-up, and what was asked
  for (const { text, plan } of plans) {
    const { sequential, rows } = readingsOf(plan);
    expect(
      sequential.filter((table) => tables.has(table)),
      text,
    ).toEqual([]);
    expect(rows, text).toBeLessThanOrEqual(most);
  }
}

test.skipIf(isOnCitus()).each(calls)(
  '%s reads few rows and does no full table scan (needs one server)',
  async (_name, most, call) => {
    for (const { id, adminId } of customers) {
      const customer = await clientOf(watched.app, id, adminId, [...scopes]);
      const ids = await idsOf(customer);
      watched.watch.take();
      const { status } = await call(customer, ids);
      expect(status).toBeLessThan(300);
      expectPlans(most);
    }
  },
);

const orders = (
  [
    ['/contacts', contactFilterFields],
    ['/company', companyFilterFields],
  ] as const
).flatMap(([path, fields]) =>
  indexed(fields).flatMap((field) => (['ASC', 'DESC'] as const).map((direction) => ({ path, field, direction }))),
);

test.skipIf(isOnCitus()).each(orders)(
  'a page of $path by $field $direction reads a few rows of an index, at any depth (needs one server)',
  async ({ path, field, direction }) => {
    for (const { id, adminId } of customers) {
      const customer = await clientOf(watched.app, id, adminId, [...scopes]);
      const list = (paginate: object): Promise<Answer> =>
        customer.post(`${path}/list`, { order_by: { [field]: direction }, paginate });
      const { total_records } = (await customer.post(`${path}/metadata`, {})).body.pagination;
      const middle = await list({ page: Math.ceil(total_records / 50), limit: 25 });
      for (const paginate of [{ limit: 25 }, { limit: 25, cursor: middle.headers['x-next-cursor'] }]) {
        watched.watch.take();
        expect((await list(paginate)).status).toBe(200);
        expectPlans(6 * 25);
      }
    }
  },
);

test.skipIf(isOnCitus())(
  'a change and the page of a changed contact read of all jobs only undos (needs one server)',
  async () => {
    const [{ id, adminId }] = customers as [TestCustomer];
    const customer = await clientOf(watched.app, id, adminId, [...scopes]);
    const visitor = await visitorOf(watched.app, id);
    const { contact } = await idsOf(customer);
    const { headers } = await customer.patch(`/contacts/${contact}`, { job_title: unique('Title') });
    watched.watch.take();
    expect((await customer.get(`/changes/${headers['x-change-id'] as string}`)).status).toBe(200);
    expect((await visitor.get(`/app/contacts/${contact}`)).status).toBe(200);
    const plans = watched.watch.take().filter(({ text }) => text.includes('from jobs'));
    const readings = plans.map(({ plan }) => readingsOf(plan));
    expect(readings.filter(({ sequential, rows }) => sequential.includes('jobs') || rows > 50)).toEqual([]);
    expect(readings).toHaveLength(3);
  },
);
