import { beforeAll, describe, expect, test } from 'vitest';
import { maxNewest } from '../../src/filters/narrowing.ts';
import { importRecords } from '../../src/jobs/import-records.ts';
import { hasDueRun } from '../../src/queries/jobs/runs.ts';
import { scopes } from '../../src/schemas/scopes.ts';
import { fileOf, type People } from '../../bench/questions-file.ts';
import { newContacts } from '../jobs/importing.ts';
import { contextOf } from '../jobs/working.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { isOnCitus } from '../setup/database.ts';
import { clientOf, contactBody, opportunityBody, type Answer, type TestCustomer } from '../setup/factories.ts';
import { appWithPlans, wastefulNodesOf } from '../setup/watched-plans.ts';

// How many rows the plans of all statements compare, for customers whose records were just imported, before the tables
// are analysed and after.

const people: People = { contacts: 2_500, companies: 2_400 };

let testApp: TestApp;
let watched: Awaited<ReturnType<typeof appWithPlans>>;

beforeAll(async () => {
  if (isOnCitus()) return;
  testApp = await startApp();
  for (const { relname } of await testApp.owner<{ relname: string }[]>`
    select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`)
    await testApp.owner`alter table ${testApp.owner(relname)} set (autovacuum_enabled = off)`;
  // Else imports analyse what they have changed.
  await testApp.owner`revoke maintain on contacts, companies, products, opportunities from sales_data_api`;
  watched = await appWithPlans(testApp.url);
}, 60_000);

/** Part of the statements that read the newest 5,000 contacts at most, which need not match. */
const ofNewest = 'select newest.*';

/**
 * Returns the statements since the last call that read too many rows in vain.
 * @param once number of rows that a statement may read in vain
 */
const wasteful = (once: number): { text: string; nodes: string[] }[] =>
  watched.watch
    .take()
    .filter(({ text }) => !text.includes('last_used_at'))
    .map(({ text, plan }) => ({
      text,
      nodes: wastefulNodesOf(plan, text.includes(ofNewest) ? Math.max(once, maxNewest) : once),
    }))
    .filter(({ nodes }) => nodes.length > 0);

type Call = (one: TestCustomer) => Promise<Answer>;

const contacts =
  (body: object): Call =>
  (one) =>
    one.post('/contacts/list', body);
const filtered = (filters: object, more: object = {}): Call => contacts({ filters, ...more });
const counted =
  (filters: object): Call =>
  (one) =>
    one.post('/contacts/metadata', { filters });

const calls: Record<string, Call> = {
  'newest contacts': contacts({}),
  'contacts in an order without an index': contacts({ order_by: { job_title: 'ASC' } }),
  'contacts of a company': async (one) => {
    const { body } = await one.post('/contacts/list', {});
    return one.post('/contacts/list', { filters: { company_id: body[0].company.id } });
  },
  'contacts by company name': contacts({ order_by: { 'company.company_name': 'ASC' } }),
  'a common value': filtered({ location_country: 'DE' }),
  '100 values': filtered({ 'custom_fields.external_id': Array.from({ length: 100 }, (_, i) => `ext-${i * 7}`) }),
  'a search with one match': filtered({ search: 'p1001@' }),
  'a search for nobody': filtered({ search: 'xyzzy' }),
  'a search for a company': filtered({ search: 'nordic textiles' }),
  'a search for nobody, by name': filtered({ search: 'xyzzy' }, { order_by: { last_name: 'ASC' } }),
  'a part of a company name': filtered({ 'company.company_name': { contains: 'works 234' } }),
  'an industry of companies': filtered({ 'company.industry': 'Banking' }),
  alternatives: filtered({ _or: [{ last_name: 'nobody' }, { search: 'xyzzy' }] }),
  'changed contacts': filtered({ updated_at: { gte: '2100-01-01T00:00:00Z' } }),
  'the number of a value': counted({ location_country: 'DE' }),
  'the number of many values and a part': counted({
    location_country: ['DE', 'FR', 'US', 'GB', 'SE', 'PL', 'BR', 'IT', 'ES', 'NL', 'JP'],
    job_title: { contains: 'engineer' },
  }),
  'the number of a search': counted({ search: 'xyzzy' }),
  companies: (one) => one.post('/company/list', { filters: { company_name: { contains: 'works 234' } } }),
  opportunities: async (one) => {
    const company_id = (await one.post('/company/list', {})).body[0].id;
    await one.post('/opportunities', await opportunityBody(one, { company_id }));
    return one.post('/opportunities/list', {});
  },
  'a new contact': (one) => one.post('/contacts', contactBody({ company: { name: 'Nobody knows' } })),
  'a list with a rule about companies': async (one) => {
    const rules = [{ field: 'company.industry', operator: 'contains', value: 'bank' }];
    return one.post('/list-contact', { name: 'Banks', rules });
  },
};

/** What the planner knows of a customer: nothing, the other customers, or everything. */
const statistics = ['none', 'of others', 'fresh'] as const;

let customer: TestCustomer;

const lines = (line: (i: number) => string): string => Array.from({ length: 2_500 }, (_, i) => line(i)).join('\n');
const productsFile = `external_id,name,price,unit\n${lines((i) => `e${i},Engine,1,piece`)}`;
const dealsFile = (userId: string): string =>
  `external_id,name,pipeline,stage,user_id_assigned,estimated_closing_date,close_date\n` +
  lines((i) => `d${i},Deal,Sales,Won,${userId},2026-12-01,2026-12-31`);

/**
 * Imports the records of a new customer, then changes all of them by a second import. Imports deals of their own ids.
 * Returns the wasteful statements.
 */
async function load(once: number): Promise<object[]> {
  const { id, adminId } = await testApp.customer();
  customer = await clientOf(watched.app, id, adminId, [...scopes]);
  const context = { ...contextOf(testApp), db: watched.db.for({ customerId: id }, 'import') };
  const file = fileOf(people);
  const found: object[] = [];
  const upsert = { ...newContacts, mode: 'upsert', match: 'external_id' };
  for (const [settings, content] of [
    [newContacts, file],
    [{ ...upsert, match: 'work_email' }, file.replaceAll(',Berlin,', ',Bremen,')],
    [{ ...upsert, object: 'products' }, productsFile],
    [{ ...upsert, object: 'opportunities' }, dealsFile(adminId)],
  ] as const) {
    const { body } = await customer.post('/imports', settings);
    await customer.call('PUT', `/imports/${body.data.id}/file`, content, { 'content-type': 'text/csv' });
    while (await watched.db.transaction((sql) => hasDueRun(sql, id, 'import'))) {
      await importRecords(10)(context, { customerId: id });
      found.push(...wasteful(once));
    }
    expect((await customer.get(`/imports/${body.data.id}`)).body).toMatchObject({ status: 'COMPLETED', failed: 0 });
  }
  return found;
}

/** Brings about what the planner shall know. Returns the wasteful statements of the imports that this needs. */
async function prepare(known: (typeof statistics)[number], once: number): Promise<object[]> {
  if (known !== 'none') await testApp.owner`vacuum analyze`;
  return known === 'fresh' ? [] : load(once);
}

describe.skipIf(isOnCitus()).each(statistics)('statistics: %s (needs one server)', (known) => {
  // For a customer whom it does not know, the planner expects fewer records than for a search term, and reads all of
  // the customer's records once.
  const once = known === 'fresh' ? 2_000 : people.contacts + 2_000;

  test('imports: compare few rows in vain', async () => {
    expect(await prepare(known, once)).toEqual([]);
  }, 600_000);

  test.each(Object.keys(calls))('%s: compares few rows in vain', async (name) => {
    watched.watch.take();
    expect((await calls[name]!(customer)).status).toBeLessThan(300);
    expect(wasteful(once)).toEqual([]);
  });
});
