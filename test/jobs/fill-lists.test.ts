import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { fillLists } from '../../src/jobs/fill-lists.ts';
import { startWorkers } from '../../src/jobs/workers.ts';
import { fillNextBatch } from '../../src/queries/memberships/list-fills.ts';
import { recount } from '../queries/memberships/recount.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { contactBody, type TestCustomer } from '../setup/factories.ts';
import { startServerProcess } from '../setup/server-process.ts';
import { contextOf } from './working.ts';

let app: TestApp;
let customer: TestCustomer;
let list: string;

const many = 12_000;
const engineers = [{ field: 'job_title', operator: 'contains', value: 'engineer' }];
const clerks = [{ field: 'job_title', operator: 'equals', value: 'Clerk' }];

const startWorker = () => startServerProcess(app.url, {}, ['src/cli.ts', 'work', '--json']);

beforeAll(async () => {
  app = await startApp();
});

beforeEach(async () => {
  await app.owner`delete from pgboss.job where name = 'fill-lists'`;
  customer = await app.customer();
  await fillContacts(customer, many);
  list = (await customer.post('/list-contact', { name: 'Filled', rules: engineers })).body.id;
});

async function fillContacts(customer: TestCustomer, count: number): Promise<void> {
  await app.owner`
    insert into contacts (customer_id, first_name, last_name, work_email, job_title, folded)
    select ${customer.id}, 'Ada', 'Lovelace', 'ada@example.com', title,
      jsonb_build_object('first_name', 'ada', 'last_name', 'lovelace', 'work_email', 'ada@example.com', 'job_title', lower(title),
        'industry', '', 'location_locality', '', 'location_country', '', 'location_region', '')
    from (select (array['Engineer', 'Clerk', 'Senior Engineer', ''])[1 + n % 4] as title from generate_series(1, ${count}::int) n) one`;
  await app.owner`insert into counters values (${customer.id}, 'contacts', 0, ${count})`;
}

const state = async () => (await recount(app.owner, customer.id)).lists.find(({ id }) => id === list)!;
const answered = async (): Promise<number> => (await customer.get(`/list-contact/${list}`)).body.contacts_count;
const progress = async (): Promise<string | null> => {
  const [row] = await app.owner<{ filled_to: string | null }[]>`select filled_to from lists where id = ${list}`;
  return row!.filled_to;
};
const filled = () =>
  vi.waitFor(async () => expect((await state()).isFilling).toBe(false), { timeout: 60_000, interval: 200 });

async function expectExact(): Promise<void> {
  const { members, shouldBe, kept, wrong } = await state();
  expect(wrong).toEqual([]);
  expect(members).toEqual(shouldBe);
  expect(kept).toBe(shouldBe.length);
  expect(await answered()).toBe(shouldBe.length);
}

describe('a list of many contacts whose rules changed', () => {
  test('responds at once and is read exactly before anything is filled', async () => {
    expect(await state()).toMatchObject({ isFilling: true, members: [] });
    expect(await answered()).toBe(many / 2);
    const [only] = (await customer.post('/list-contact/list', {})).body;
    expect(only.contacts_count).toBe(many / 2);
    const filters = { list_id: list };
    const { body } = await customer.post('/contacts/metadata', { filters });
    expect(body.pagination.total_records).toBe(many / 2);
    const page = await customer.post('/contacts/list', { filters, paginate: { limit: 100 } });
    expect(new Set(page.body.map((contact: { job_title: string }) => contact.job_title))).toEqual(
      new Set(['Engineer', 'Senior Engineer']),
    );
    const outside = await customer.post('/contacts/metadata', { filters: { list_id: null } });
    expect(outside.body.pagination.total_records).toBe(many / 2);
  });

  test('counts every write while it is filled, manual members and members by rule', async () => {
    const contact = (await customer.post('/contacts', contactBody({ job_title: 'Engineer' }))).body.data.id;
    expect(await answered()).toBe(many / 2 + 1);
    await customer.patch(`/contacts/${contact}`, { job_title: 'Baker' });
    expect(await answered()).toBe(many / 2);
    const add = await customer.post('/list-contact-details/add-contacts', { list_id: list, contact_ids: [contact] });
    expect(add.body.data).toEqual({ added: 1, already_members: 0 });
    const [engineer] = await app.owner<{ id: string }[]>`
      select id from contacts where customer_id = ${customer.id} and job_title = 'Engineer' limit 1`;
    const again = await customer.post('/list-contact-details/add-contacts', {
      list_id: list,
      contact_ids: [engineer!.id],
    });
    expect(again.body.data).toEqual({ added: 0, already_members: 1 });
    expect(await answered()).toBe(many / 2 + 1);
    const copy = await customer.post('/list-contact/duplicate', { list_id: list, new_name: 'Copy' });
    expect((await customer.get(`/list-contact/${copy.body.data.id}`)).body.contacts_count).toBe(many / 2 + 1);
    expect((await customer.delete(`/list-contact/${list}`)).status).toBe(200);
  });

  test('is filled by a worker, by the rules as they are then', async () => {
    await customer.patch(`/list-contact/${list}`, { rules: clerks });
    const worker = await startWorker();
    await filled();
    await expectExact();
    expect(await answered()).toBe(many / 4);
    await customer.patch(`/list-contact/${list}`, { rules: [] });
    expect(await answered()).toBe(0);
    await filled();
    await expectExact();
    expect(await worker.stop()).toBe(0);
  });

  test('resumes its fill after the worker was killed', async () => {
    const worker = await startWorker();
    await vi.waitFor(async () => expect(await progress()).not.toBeNull(), { timeout: 30_000, interval: 5 });
    await worker.stop('SIGKILL');
    expect(await answered()).toBe(many / 2);
    await app.owner`update pgboss.job set heartbeat_on = heartbeat_on - interval '1 minute' where state = 'active'`;
    const next = await startWorker();
    await filled();
    await expectExact();
    expect(await next.stop()).toBe(0);
  });

  test('is left to the next worker when one is asked to stop, and that one exits with 0', async () => {
    const worker = await startWorker();
    await vi.waitFor(async () => expect(await progress()).not.toBeNull(), { timeout: 30_000, interval: 5 });
    expect(await worker.stop()).toBe(0);
    expect(await answered()).toBe(many / 2);
    const next = await startWorker();
    await filled();
    await expectExact();
    expect(await next.stop()).toBe(0);
  });
});

describe('lists of many contacts that are filled at once', () => {
  const fillBatch = () => app.db.transaction((sql) => fillNextBatch(sql, customer.id));

  async function expectCounts(): Promise<void> {
    const { lists } = await recount(app.owner, customer.id);
    const shouldBe = Object.fromEntries(lists.map(({ id, shouldBe: members }) => [id, members.length]));
    const { body } = await customer.post('/list-contact/list', {});
    const counts = body.map((one: { id: string; contacts_count: number }) => [one.id, one.contacts_count]);
    expect(Object.fromEntries(counts)).toEqual(shouldBe);
  }

  test('are counted exactly after each batch, with manual members, members of old rules and contacts that change', async () => {
    customer = await app.customer();
    await fillContacts(customer, 5_000);
    list = (await customer.post('/list-contact', { name: 'First', rules: engineers })).body.id;
    const lists = [list];
    for (const rules of [clerks, [{ field: 'company.industry', operator: 'contains', value: 'shipping' }], []])
      lists.push((await customer.post('/list-contact', { name: 'More', rules })).body.id);
    const contacts = await app.owner<{ id: string }[]>`
      select id from contacts where customer_id = ${customer.id} order by hashtext(id::text) limit 60`;
    const ids = contacts.map(({ id }) => id);
    for (const [i, list_id] of lists.entries())
      await customer.post('/list-contact-details/add-contacts', { list_id, contact_ids: ids.slice(10 * i) });
    for (let i = 0, outcome = 'more'; outcome !== 'done'; i += 1) {
      await expectCounts();
      outcome = await fillBatch();
      await customer.patch(`/contacts/${ids[i]}`, { job_title: i % 2 ? 'Clerk' : 'Engineer' });
      // By now the list is filled, so this change of rules leaves rows from the old rules behind.
      if (i === 3) await customer.patch(`/list-contact/${list}`, { rules: clerks });
    }
    await expectCounts();
  });

  test('are counted exactly while contacts that are already filled change with their company', async () => {
    const company = (await customer.post('/company', { type: 'customer', company_name: 'Large' })).body.data.id;
    await app.owner`
      update contacts set company_id = ${company}
      where customer_id = ${customer.id}
        and id in (select id from contacts where customer_id = ${customer.id} order by id limit 600)`;
    const rules = [{ field: 'company.industry', operator: 'equals', value: 'Shipping' }];
    await customer.post('/list-contact', { name: 'By company', rules });
    const progressed = async () =>
      (
        await app.owner`select from lists where customer_id = ${customer.id} and filled_to is not null and id <> ${list}`
      ).count;
    while ((await progressed()) === 0) await fillBatch();
    expect((await customer.patch(`/company/${company}`, { industry: 'Shipping' })).status).toBe(200);
    expect((await app.owner`select from company_settlements where customer_id = ${customer.id}`).count).toBe(1);
    await expectCounts();
  });

  test('are filled in turn, one customer after another', async () => {
    for (let i = 0; i < 5; i += 1) await customer.post('/list-contact', { name: 'More', rules: engineers });
    const modest = await app.customer();
    await fillContacts(modest, 3_000);
    const short = (await modest.post('/list-contact', { name: 'Short', rules: engineers })).body.id;
    const isFilling = async (customerId: string) =>
      (await app.owner`select from lists where customer_id = ${customerId} and fill_version is not null`).count;
    expect(await isFilling(modest.id)).toBe(1);

    const handlers = { 'fill-lists': { handle: fillLists(0), atOnce: 1 } };
    const workers = await startWorkers({ ...contextOf(app), url: app.url }, handlers);
    let left = 6;
    await vi.waitFor(
      async () => {
        const still = await isFilling(customer.id);
        expect(await isFilling(modest.id)).toBe(0);
        left = still;
      },
      { timeout: 60_000, interval: 10 },
    );
    expect(left).toBeGreaterThanOrEqual(5);
    expect((await modest.get(`/list-contact/${short}`)).body.contacts_count).toBe(1_500);
    await vi.waitFor(async () => expect(await isFilling(customer.id)).toBe(0), { timeout: 60_000, interval: 50 });
    await workers.stop();
    await expectExact();
  });
});
