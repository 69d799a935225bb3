import { beforeAll, expect, test } from 'vitest';
import { erase } from '../../src/catalog/privacy.ts';
import { takeTurn } from '../../src/jobs/turns.ts';
import { jobBatches } from '../../src/jobs/workers.ts';
import { checkCredits } from '../../src/queries/jobs/credit-checks.ts';
import { insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { person, writePeople } from '../catalog/people.ts';
import { suppress } from '../catalog/suppress.ts';
import { membersOf, wrongCounts } from '../queries/memberships/recount.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, make, unique, type TestCustomer } from '../setup/factories.ts';
import { creditsOf, customerWith, read } from './calls.ts';
import { contextOf } from './working.ts';

const app = await startApp();

beforeAll(async () => {
  await app.catalog.prepare();
});

interface Told {
  type: string;
  data: { id: string };
}

/** Adds somebody with unique values to the catalog. */
async function add(more: Partial<Prospect> = {}): Promise<Prospect> {
  const name = unique('Name');
  const one = person({
    last_name: name,
    work_email: `${name}@x.example`,
    emails: [],
    profnet_url: `profnet.example/in/${name}`,
    ...more,
  });
  await writePeople(app.catalog, [one]);
  return one;
}

const contact = (customer: TestCustomer, more: object = {}): Promise<string> =>
  make(
    customer,
    '/contacts',
    contactBody({ last_name: unique('Own'), work_email: `${unique('own')}@own.example`, ...more }),
  );
const start = (customer: TestCustomer, body: object, headers?: Record<string, string>) =>
  customer.post('/service-handler/enrich-contacts', body, headers);

/** Starts a job, works at it until its end, and returns its results by contact. */
async function enrich(customer: TestCustomer, body: object) {
  const started = await start(customer, body);
  expect(started.status, JSON.stringify(started.body)).toBe(200);
  await takeTurn('unlock', jobBatches)(contextOf(app), { customerId: customer.id });
  const job = (await read(customer, started.body.id)).body;
  expect(job.status).toBe('COMPLETED');
  const { body: rows } = await customer.post(`/service-handler/${job.id}/results`, { paginate: { limit: 100 } });
  expect(await app.db.search((sql) => checkCredits(sql, customer.id))).toEqual([]);
  return {
    job,
    results: new Map<string, Record<string, unknown>>(rows.map((row: { item: string }) => [row.item, row])),
  };
}

test('a contact is found by its own values, and its empty fields are filled for one credit', async () => {
  const customer = await customerWith(app, { subscription: 10 });
  const [ada, bob, eve] = [await add(), await add(), await add({ mobile_phone: '+491511' })];
  const list = await customer.post('/list-contact', {
    name: 'Analysts',
    rules: [{ field: 'job_title', operator: 'equals', value: 'Analyst' }],
  });
  const ids = [
    await contact(customer, { work_email: ada.work_email.toUpperCase() }),
    await contact(customer, { profnet_url: `https://www.${bob.profnet_url}/`, job_title: 'Chief' }),
    await contact(customer, { first_name: 'ada', last_name: eve.last_name, company: { name: eve.job_company_name } }),
    await contact(customer),
  ];
  const { job, results } = await enrich(customer, { contact_ids: ids, max_credits: 10 });
  expect(job).toMatchObject({ succeeded: 3, skipped: 1, credits: { reserved: 4, charged: 3, refunded: 1 } });
  expect(results.get(ids[0]!)).toMatchObject({ contact_id: ids[0], charged: 1, result: { prospect_id: ada._id } });
  expect(results.get(ids[3]!)).toMatchObject({ status: 'skipped', reason: 'no_match', charged: 0, result: null });
  const [first, second, third] = await Promise.all(ids.map(async (id) => (await customer.get(`/contacts/${id}`)).body));
  expect(first).toMatchObject({
    job_title: 'Analyst',
    company: { company_name: ada.job_company_name },
    verification_status: 'verified',
  });
  expect(second).toMatchObject({ job_title: 'Chief', location_country: 'GB', verification_status: 'unverified' });
  expect(third).toMatchObject({ mobile_phone: '+491511', first_name: 'ada', profnet_url: eve.profnet_url });
  const { body: events } = await customer.post('/events/list', { types: ['contact.updated', 'job.ended'] });
  expect(events.map(({ type, data: { id } }: Told) => `${type} ${id}`).toSorted()).toEqual(
    [...ids.slice(0, 3).map((id) => `contact.updated ${id}`), `job.ended ${job.id}`].toSorted(),
  );
  const told: Told = events.find(({ data }: Told) => data.id === ids[0]);
  expect(told.data).toMatchObject({ changed: expect.arrayContaining(['job_title', 'company']) });
  expect(await wrongCounts(customer, app.owner)).toEqual([]);
  expect(await membersOf(customer, list.body.id)).toEqual([ids[0]!, ids[2]!].toSorted());
  // Everything is filled now, and everybody is unlocked.
  const again = await enrich(customer, { filters: {}, max_credits: 10 });
  expect([...again.results.values()].map(({ reason }) => reason)).toEqual([
    'nothing_new',
    'nothing_new',
    'nothing_new',
    'no_match',
  ]);
  expect((await creditsOf(customer)).subscription).toEqual({ balance: 7, reserved: 0 });
});

test('every contact that is filled from a person comes from the person, so an erasure marks all of them, merged ones too', async () => {
  const customer = await customerWith(app, { subscription: 10 });
  const { _id: id, work_email } = await add();
  const contact_ids = [await contact(customer, { work_email, job_title: 'Boss' })];
  for (let i = 0; i < 4; i += 1) contact_ids.push(await contact(customer, { work_email }));
  const [, first, second, third, fourth] = contact_ids;
  const { results } = await enrich(customer, { contact_ids, fields: ['job_title'], max_credits: 10 });
  expect(contact_ids.map((one) => results.get(one)!['reason'])).toEqual(['nothing_new', null, null, null, null]);
  const kept = [await contact(customer), await contact(customer)];
  await customer.post('/contacts/merge', { id: kept[0], merge_ids: [third], fields: { work_email: kept[0] } });
  await customer.post('/contacts/merge', { id: kept[1], merge_ids: [fourth], fields: { work_email: kept[1] } });
  await app.owner`update contacts set prospect_id = null where id = any(${kept}::uuid[])`;
  await erase({ ...app, notify: () => undefined }, { kind: 'id', value: id }, { operator: 'tests' });
  const marked = await customer.post('/contacts/list', { filters: { removal_requested_at: { is_null: false } } });
  expect(marked.body.map(({ id: one }: { id: string }) => one).toSorted()).toEqual(
    [first!, second!, ...kept].toSorted(),
  );
});

test('never more than `max_credits` is spent, and nothing for people who are unlocked, fill nothing or are ambiguous', async () => {
  const customer = await customerWith(app, { subscription: 10 });
  const [paid, refused, known, useless] = [await add(), await add(), await add(), await add()];
  const twin = unique('Twin');
  await add({ last_name: twin, profnet_url: null });
  await add({ last_name: twin, profnet_url: null });
  await app.db.transaction((sql) => insertUnlocks(sql, customer.id, [known._id]));
  const of = ({ work_email }: Prospect, more: object = {}) => contact(customer, { work_email, ...more });
  const ids = {
    paid: await of(paid),
    same: await of(paid),
    refused: await of(refused),
    known: await of(known),
    useless: await of(useless, { job_title: 'Boss' }),
    twin: await contact(customer, { first_name: 'Ada', last_name: twin, company: { name: paid.job_company_name } }),
  };
  const body = { contact_ids: Object.values(ids), fields: ['job_title'], max_credits: 1 };
  expect((await start(customer, { ...body, dry_run: true })).body).toEqual({ contacts: 6, cost: 1, available: 10 });
  const { job, results } = await enrich(customer, body);
  expect(job.credits).toMatchObject({ reserved: 1, charged: 1 });
  const seen = Object.entries(ids).map(([name, id]) => [name, results.get(id)!['reason'], results.get(id)!['charged']]);
  expect(seen).toEqual([
    ['paid', null, 1],
    ['same', null, 0],
    ['refused', 'max_credits', 0],
    ['known', null, 0],
    ['useless', 'max_credits', 0],
    ['twin', 'max_credits', 0],
  ]);
  const unlocked = await app.owner`select prospect_id from unlocks where customer_id = ${customer.id}`;
  expect(unlocked.map(({ prospect_id: id }) => id as string).toSorted()).toEqual([paid._id, known._id].toSorted());
  // With `overwrite`, the title is replaced too.
  await enrich(customer, { contact_ids: [ids.useless], fields: ['job_title'], overwrite: true, max_credits: 1 });
  expect((await customer.get(`/contacts/${ids.useless}`)).body.job_title).toBe('Analyst');
});

test('what is free does not tell who of those not unlocked has an address', async () => {
  const customer = await customerWith(app, { subscription: 10 });
  const [hidden, paid] = [await add(), await add()];
  const [right, wrong, filled] = [
    await contact(customer, { work_email: hidden.work_email, job_title: 'Boss' }),
    await contact(customer, { work_email: `${unique('no')}@example.com`, job_title: 'Boss' }),
    await contact(customer, { work_email: paid.work_email }),
  ];
  const told = async (max_credits: number, contact_ids: string[], fields = ['job_title']) => {
    const { results } = await enrich(customer, { contact_ids, fields, max_credits });
    // Each row ends at a time of its own.
    const own = { item: null, position: null, contact_id: null, finished_at: null };
    return [right, wrong].map((id) => ({ ...results.get(id), ...own }));
  };
  const nothing = { status: 'skipped', charged: 0, result: null };
  const free = await told(1, [right, wrong]);
  expect(free).toMatchObject([nothing, nothing].map((one) => ({ ...one, reason: 'no_match' })));
  expect(free[0]).toEqual(free[1]);
  for (const [credits, ids] of [
    [0, [right, wrong]],
    [1, [filled, right, wrong]],
  ] as const) {
    const unpaid = await told(credits, [...ids], ['job_title', 'location_country']);
    expect(unpaid).toMatchObject([nothing, nothing].map((one) => ({ ...one, reason: 'max_credits' })));
    expect(unpaid[0]).toEqual(unpaid[1]);
  }
});

test('nobody who is suppressed between match and unlock is unlocked or fills anything', async () => {
  const customer = await customerWith(app, { subscription: 10 });
  const [ada, bob] = [await add(), await add()];
  const ids = [
    await contact(customer, { work_email: ada.work_email }),
    await contact(customer, { work_email: bob.work_email }),
  ];
  const { body: job } = await start(customer, { contact_ids: ids, max_credits: 10 });
  const context = contextOf(app);
  const search: typeof context.catalog.search = async (...given) => {
    const found = await context.catalog.search(...given);
    await suppress(app.db, [['email', ada.work_email]]);
    return found;
  };
  await takeTurn('unlock', jobBatches)(
    { ...context, catalog: { ...context.catalog, search } },
    { customerId: customer.id },
  );
  const { body: rows } = await customer.post(`/service-handler/${job.id}/results`);
  expect(rows).toMatchObject([
    { item: ids[0], status: 'skipped', reason: 'no_match', charged: 0, result: null },
    { item: ids[1], status: 'succeeded', charged: 1 },
  ]);
  expect((await customer.get(`/contacts/${ids[0]}`)).body.job_title).toBe('');
  const unlocked = await app.owner`select prospect_id from unlocks where customer_id = ${customer.id}`;
  expect(unlocked).toEqual([{ prospect_id: bob._id }]);
});

test('a deleted contact fails, and a merged one is enriched as the one that stays, once', async () => {
  const customer = await customerWith(app, { subscription: 10 });
  const ada = await add();
  const [kept, merged, deleted] = [
    await contact(customer),
    await contact(customer, { work_email: ada.work_email }),
    await contact(customer),
  ];
  const started = await start(customer, { contact_ids: [merged, kept, deleted], max_credits: 10 });
  await customer.post('/contacts/merge', { id: kept, merge_ids: [merged], fields: { work_email: merged } });
  await customer.delete(`/contacts/${deleted}`);
  await takeTurn('unlock', jobBatches)(contextOf(app), { customerId: customer.id });
  const { body: rows } = await customer.post(`/service-handler/${started.body.id}/results`);
  expect(rows).toMatchObject([
    { item: merged, contact_id: kept, status: 'succeeded', charged: 1 },
    { item: kept, status: 'skipped', reason: 'duplicate' },
    { item: deleted, status: 'failed', reason: 'not_found' },
  ]);
  expect((await customer.get(`/contacts/${kept}`)).body.job_title).toBe('Analyst');
});

test('a start takes either ids or filters, and names its faults: unknown contacts, scopes, and too few credits', async () => {
  const customer = await customerWith(app, { subscription: 1 });
  const ids = [await contact(customer), await contact(customer)];
  const estimate = async (body: object) =>
    (await start(customer, { ...body, max_credits: 1, dry_run: true })).body.contacts as number;
  expect(await estimate({ filters: {} })).toBe(2);
  expect(await estimate({ contact_ids: [ids[0], ids[0]] })).toBe(1);
  for (const body of [{}, { contact_ids: ids, filters: {} }])
    expect(await start(customer, { ...body, max_credits: 1 })).toMatchObject({
      status: 400,
      body: { errors: [{ path: '/filters' }] },
    });
  const foreign = await contact(await app.customer());
  const unknown = await start(customer, { contact_ids: [ids[0], foreign], max_credits: 1 });
  expect([unknown.status, unknown.body.errors[0].path]).toEqual([404, '/contact_ids/1']);
  expect(await start(customer, { contact_ids: ids, max_credits: 2 })).toMatchObject({
    status: 402,
    body: { required: 2, available: 1, pool: 'subscription' },
  });
  const payer = await customer.withScopes(['payment_prospect:create']);
  expect((await start(payer, { contact_ids: ids, max_credits: 0 })).status).toBe(403);
  const started = await start(customer, { contact_ids: ids, max_credits: 0 });
  expect((await read(payer, started.body.id)).status).toBe(404);
  const both = await customer.withScopes(['payment_prospect:create', 'contacts:update']);
  expect((await read(both, started.body.id)).body).toMatchObject({
    type: 'enrich_contacts',
    total: 2,
    credits: { reserved: 0 },
  });
});
