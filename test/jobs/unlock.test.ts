import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { startWorkers } from '../../src/jobs/workers.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { person, writePeople } from '../catalog/people.ts';
import { recount } from '../queries/memberships/recount.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, make, unique, type TestCustomer } from '../setup/factories.ts';
import { customerWith } from './calls.ts';
import { booksOf, ended, resultsOf, startSelected, startUnlock } from './spending.ts';
import { contextOf } from './working.ts';

// With real workers, and the catalog on PostgreSQL: test/catalog/conformance.ts proves that both engines answer alike, and
// elasticsearch/damage.test.ts runs jobs on Elasticsearch.
const app = await startApp();
beforeAll(async () => {
  await app.catalog.prepare();
  const workers = await startWorkers({ ...contextOf(app), url: app.url });
  return () => workers.stop();
});

/**
 * Adds people with a unique last name to the catalog, the best score last. Returns them with a filter that matches
 * only them.
 */
async function people(count: number, more: (i: number) => Partial<Prospect> = () => ({})) {
  const last_name = unique('Name');
  const made = Array.from({ length: count }, (_, i) =>
    person({ last_name, score: i % 101, work_email: `${last_name}${i}@x.example`, emails: [], ...more(i) }),
  );
  await writePeople(app.catalog, made);
  await app.catalog.finish();
  return { made, filters: { last_name: [last_name] } };
}

const idsOf = (rows: { _id: string }[]): string[] => rows.map(({ _id }) => _id);
const list = async (customer: TestCustomer, body: object): Promise<Prospect[]> =>
  (await customer.post('/prospect/list', { paginate: { limit: 100 }, ...body })).body;
const countOf = async (customer: TestCustomer, body: object): Promise<number> =>
  (await customer.post('/prospect/metadata', body)).body.pagination.total_records;

test('with lists, unlocked people become contacts and members by hand, those of before too, and unknown lists are refused', async () => {
  const customer = await customerWith(app, { subscription: 100 });
  const { made, filters } = await people(6);
  const [one, two] = await Promise.all(
    ['One', 'Two'].map(async (name) => (await customer.post('/list-contact', { name })).body.id as string),
  );
  await ended(customer, await startUnlock(customer, { filters, total_records: 2 }));
  const first = await startUnlock(customer, { filters, total_records: 2, list_ids: [one!.toUpperCase(), one, two] });
  expect(await ended(customer, first)).toMatchObject({ status: 'COMPLETED', sync_crm: true, succeeded: 2 });
  await customer.call('DELETE', `/list-contact/${two}`);
  const ids = idsOf(made);
  const all = await customer.post('/service-handler/unlock-selected-contacts', { ids, list_ids: [one, one] });
  await ended(customer, all.body.id);
  const members = await customer.post('/contacts/list', { filters: { list_id: one } });
  expect(members.body.map(({ work_email }: { work_email: string }) => work_email).toSorted()).toEqual(
    made.map(({ work_email }) => work_email).toSorted(),
  );
  expect((await customer.get(`/list-contact/${one}`)).body.contacts_count).toBe(6);
  for (const dry_run of [true, false])
    expect(
      await customer.post('/service-handler/unlock-contacts', {
        filters,
        total_records: 1,
        list_ids: [two],
        dry_run,
      }),
    ).toMatchObject({ status: 404, body: { errors: [{ path: '/list_ids/0' }] } });
});

test('the first prospects of a search are unlocked in its order, then shown in clear and left out of net-new searches at once', async () => {
  const customer = await customerWith(app, { subscription: 100 });
  const { filters } = await people(60);
  const shown = await list(customer, { filters });
  const job = await startUnlock(customer, { filters, total_records: 40 });
  expect(await ended(customer, job)).toMatchObject({
    status: 'COMPLETED',
    total: 40,
    succeeded: 40,
    failed: 0,
    skipped: 0,
    credits: { pool: 'subscription', reserved: 40, charged: 40, refunded: 0 },
  });
  const results = await resultsOf(customer, job);
  expect(results.map(({ item }) => item)).toEqual(idsOf(shown).slice(0, 40));
  for (const { status, reason, charged, contact_id } of results)
    expect([status, reason, charged, contact_id]).toEqual(['succeeded', null, 1, null]);
  const clear = await list(customer, { filters, all_contacts: true });
  expect(clear.slice(0, 40)).toEqual(results.map(({ result }) => result));
  expect(clear[0]!.work_email).not.toContain('•');
  expect(clear[40]!.work_email).toContain('•');
  expect(await list(customer, { filters })).toEqual(shown.slice(40));
  expect([await countOf(customer, { filters }), await countOf(customer, { filters, all_contacts: true })]).toEqual([
    20, 60,
  ]);
  expect(await booksOf(app, customer)).toEqual({ balance: 60, reserved: 0 });
  const other = await app.customer();
  expect((await list(other, { filters })).every(({ work_email }) => work_email.includes('•'))).toBe(true);
});

test('another order is kept across many batches', async () => {
  const customer = await customerWith(app, { subscription: 1_000 });
  const titles = ['Zoo Keeper', 'ångström', 'Engineer', 'engineer', 'Übersetzer', ''];
  const { made, filters } = await people(520, (i) => ({
    job_title: titles[i % 6]!,
    location_postal_code: i % 3 ? `${i % 50}` : null,
  }));
  // The more significant member is the longer one: jsonb would put it last.
  const order_by = { location_postal_code: 'DESC', job_title: 'ASC' };
  const shown: string[] = [];
  for (let page = 1; page <= 6; page += 1)
    shown.push(...idsOf(await list(customer, { filters, order_by, paginate: { limit: 100, page } })));
  expect(shown).toHaveLength(made.length);
  const job = await startUnlock(customer, { filters, order_by, total_records: 505 });
  await ended(customer, job);
  expect((await resultsOf(customer, job)).map(({ item }) => item)).toEqual(shown.slice(0, 505));
  expect(await countOf(customer, { filters })).toBe(15);
  expect(await booksOf(app, customer)).toEqual({ balance: 495, reserved: 0 });
});

test('already unlocked prospects are skipped, and prospects without a valid email are free', async () => {
  const customer = await customerWith(app, { subscription: 100 });
  const { made, filters } = await people(20, (i) =>
    i % 2 ? { work_email: ['', 'n/a'][(i % 4) >> 1]!, emails: ['none@'] } : {},
  );
  const before = made.slice(15).map(({ _id }) => _id);
  await ended(customer, await startSelected(customer, before));
  expect(await booksOf(app, customer)).toEqual({ balance: 98, reserved: 0 });
  const job = await startUnlock(customer, { filters, total_records: 10 });
  expect(await ended(customer, job)).toMatchObject({
    succeeded: 10,
    credits: { reserved: 10, charged: 5, refunded: 5 },
  });
  const results = await resultsOf(customer, job);
  expect(results.map(({ item }) => item)).toEqual(idsOf(made.slice(5, 15).toReversed()));
  for (const { charged, result } of results) expect(charged).toBe(result!.work_email.includes('@') ? 1 : 0);
  expect(await booksOf(app, customer)).toEqual({ balance: 93, reserved: 0 });
});

test('selected prospects are processed in the given order, each with its own result', async () => {
  const customer = await customerWith(app, { subscription: 100 });
  const { made } = await people(4, (i) => (i === 2 ? { work_email: '' } : {}));
  const [one, two, free, four] = idsOf(made) as [string, string, string, string];
  await ended(customer, await startSelected(customer, [two]));
  const unknown = randomUUID();
  const job = await startSelected(customer, [four, unknown, two, one, four, free, two]);
  expect(await ended(customer, job)).toMatchObject({
    status: 'COMPLETED',
    total: 7,
    succeeded: 3,
    failed: 1,
    skipped: 3,
    credits: { reserved: 3, charged: 2, refunded: 1 }, // who is free is not reserved for
  });
  const results = await resultsOf(customer, job);
  expect(
    results.map(({ item, status, reason, charged, result }) => [item, status, reason, charged, result?._id]),
  ).toEqual([
    [four, 'succeeded', null, 1, four],
    [unknown, 'failed', 'not_found', 0, undefined],
    [two, 'skipped', 'already_unlocked', 0, two],
    [one, 'succeeded', null, 1, one],
    [four, 'skipped', 'duplicate', 0, undefined],
    [free, 'succeeded', null, 0, free],
    [two, 'skipped', 'duplicate', 0, undefined],
  ]);
  expect(await booksOf(app, customer)).toEqual({ balance: 97, reserved: 0 });
});

test('jobs of one customer that race for the same prospects charge for each once', async () => {
  const customer = await customerWith(app, { subscription: 5_000 });
  const { made, filters } = await people(520);
  const jobs = await Promise.all([
    startUnlock(customer, { filters, total_records: 500 }),
    startSelected(customer, idsOf(made)),
    startUnlock(customer, { filters, order_by: { score: 'ASC' }, total_records: 500, sync_crm: true }),
    startSelected(customer, idsOf(made).toReversed(), true),
  ]);
  const rows = await Promise.all(jobs.map((job) => ended(customer, job)));
  expect(rows.map(({ status }) => status)).toEqual(Array(4).fill('COMPLETED'));
  const results = (await Promise.all(jobs.map((job) => resultsOf(customer, job)))).flat();
  const charged = results.filter(({ charged }) => charged > 0).map(({ item }) => item);
  expect(charged).toHaveLength(520);
  expect(new Set(charged)).toEqual(new Set(idsOf(made)));
  expect(await booksOf(app, customer)).toEqual({ balance: 4_480, reserved: 0 });
  expect(await countOf(customer, { filters })).toBe(0);
  // The last job creates contacts for all prospects, whichever job unlocked them.
  expect((await recount(app.owner, customer.id)).contacts).toEqual({ kept: 520, real: 520 });
});

test('with sync_crm unlocked prospects become contacts with companies, members of the lists whose rules they match', async () => {
  const customer = await customerWith(app, { subscription: 1_000 });
  const { made, filters } = await people(300, (i) => ({
    job_company_name: `Company ${i % 7}`,
    job_title: i % 2 ? 'Engineer' : 'Clerk',
  }));
  const rules = [{ field: 'company.company_name', operator: 'ends_with', value: '3' }];
  const list = (await customer.post('/list-contact', { name: 'C', rules })).body.id;
  const own = await make(customer, '/contacts', contactBody({ work_email: made[299]!.work_email, job_title: 'Owner' }));
  await make(customer, '/company', { type: 'own', company_name: 'COMPANY 3' });
  const job = await startUnlock(customer, { filters, total_records: 280, sync_crm: true });
  expect(await ended(customer, job)).toMatchObject({ status: 'COMPLETED', succeeded: 280 });
  const [first] = await resultsOf(customer, job);
  const { item, contact_id } = first!;
  const contact = (await customer.get(`/contacts/${contact_id}`)).body;
  const { work_email, date_verified } = made.find(({ _id }) => _id === item)!;
  expect(contact).toMatchObject({ work_email, last_verified: date_verified, location_country: 'GB' });
  expect(contact.crm_synced_at).not.toBeNull();
  expect((await customer.get(`/contacts/${own}`)).body).toMatchObject({ job_title: 'Owner', location_country: 'GB' });
  expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(40);
  const { contacts, companies } = await recount(app.owner, customer.id);
  expect([contacts, companies]).toEqual([
    { kept: 280, real: 280 },
    { kept: 7, real: 7 },
  ]);
});
