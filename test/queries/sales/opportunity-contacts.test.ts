import { beforeAll, beforeEach, expect, test } from 'vitest';
import { settleCompanies } from '../../../src/jobs/settle-companies.ts';
import { sweepJobs } from '../../../src/jobs/sweep-jobs.ts';
import { settleBatch } from '../../../src/queries/memberships/company-settlements.ts';
import { contextOf, waitingMessages } from '../../jobs/working.ts';
import { startApp, type TestApp } from '../../setup/app.ts';
import { contactBody, make, opportunityBody, type TestCustomer } from '../../setup/factories.ts';

// Tests contacts of so many opportunities that one transaction cannot remove them from all. No worker runs unless a test
// starts one, and reads must be exact until a worker has removed them.

let app: TestApp;
let customer: TestCustomer;

beforeAll(async () => {
  app = await startApp();
});
beforeEach(async () => {
  customer = await app.customer();
});

/** Number of opportunities of a large contact. A small contact has up to 500. */
const large = 520;
const long = '2001-01-01T00:00:00.000Z';

const makeContact = (): Promise<string> => make(customer, '/contacts', contactBody());

/** Creates opportunities that were last updated long ago, with these contacts. Returns the id of one of them. */
async function opportunitiesOf(contacts: string[], count: number): Promise<string> {
  const id = await make(customer, '/opportunities', await opportunityBody(customer, { contacts_ids: contacts }));
  await app.owner`
    with made as (
      insert into opportunities
        (customer_id, name, priority, stage_id, user_id_assigned, estimated_closing_date, close_date, updated_at)
      select customer_id, name, priority, stage_id, user_id_assigned, estimated_closing_date, close_date, ${long}
      from opportunities, generate_series(2, ${count}::int)
      where customer_id = ${customer.id} and id = ${id}
      returning customer_id, id
    )
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select customer_id, id, contact_id, position
    from made, unnest(${contacts}::uuid[]) with ordinality as given (contact_id, position)`;
  await app.owner`
    update opportunities set updated_at = ${long} where customer_id = ${customer.id} and id = ${id}`;
  return id;
}

interface Shown {
  id: string;
  contacts_ids: string[];
  updated_at: string;
}

const read = async (id: string) => (await customer.get(`/opportunities/${id}`)) as { body: Shown; headers: object };

/** Returns all opportunities of the customer, from all pages. */
async function readAll(): Promise<Shown[]> {
  const all: Shown[] = [];
  for (let page = 1; ; page += 1) {
    const { body } = await customer.post('/opportunities/list', { paginate: { page, limit: 100 } });
    all.push(...(body as Shown[]));
    if (body.length < 100) return all;
  }
}

const rowsOf = async (contact: string): Promise<number> =>
  (await app.owner`select from opportunity_contacts where customer_id = ${customer.id} and contact_id = ${contact}`)
    .count;
const removals = async (): Promise<number> =>
  (await app.owner`select from contact_removals where customer_id = ${customer.id}`).count;
const settleSome = (size: number) => app.db.transaction((sql) => settleBatch(sql, customer.id, size));

test('a contact of very many opportunities is deleted with little work, and no opportunity shows it', async () => {
  const [contact, other] = [await makeContact(), await makeContact()];
  const id = await opportunitiesOf([contact, other], large);
  const before = await read(id);

  expect((await customer.delete(`/contacts/${contact}`)).status).toBe(200);
  expect(await rowsOf(contact)).toBe(large);
  expect(await waitingMessages(app, 'settle-companies', customer.id)).toBe(1);

  const check = async (): Promise<void> => {
    expect((await customer.get(`/contacts/${contact}`)).status).toBe(404);
    const after = await read(id);
    expect(after.body.contacts_ids).toEqual([other]);
    expect(after.headers).not.toMatchObject({ etag: (before.headers as { etag: string }).etag });
    const all = await readAll();
    expect([all.length, all.filter(({ contacts_ids }) => contacts_ids.join() !== other)]).toEqual([large, []]);
  };
  await check();
  expect(await settleSome(100)).toBe('more');
  expect(await rowsOf(contact)).toBe(large - 100);
  await check();

  await settleCompanies()(contextOf(app), { customerId: customer.id });
  await check();
  expect([await rowsOf(contact), await rowsOf(other), await removals()]).toEqual([0, large, 0]);
  expect((await readAll()).filter(({ updated_at }) => updated_at === long)).toEqual([]);
});

test('opportunities can be changed and deleted while workers remove a contact', async () => {
  const [contact, next] = [await makeContact(), await makeContact()];
  const first = await opportunitiesOf([contact], large);
  const [{ id: second }] = (await readAll()).filter(({ id }) => id !== first) as [Shown];
  await customer.delete(`/contacts/${contact}`);
  expect((await customer.patch(`/opportunities/${first}`, { contacts_ids: [contact] })).status).toBe(404);
  expect((await customer.patch(`/opportunities/${first}`, { contacts_ids: [next] })).status).toBe(200);
  expect((await customer.delete(`/opportunities/${second}`)).status).toBe(200);
  expect((await read(first)).body.contacts_ids).toEqual([next]);
  await settleCompanies()(contextOf(app), { customerId: customer.id });
  expect((await read(first)).body.contacts_ids).toEqual([next]);
  expect([await rowsOf(contact), await removals()]).toEqual([0, 0]);
});

test('contacts of few opportunities are removed at once, until a batch has too many of them together', async () => {
  const contacts = [await makeContact(), await makeContact(), await makeContact()];
  for (const contact of contacts) await opportunitiesOf([contact], 200);
  const { body } = await customer.post('/contacts/batch/delete', { items: contacts.map((id) => ({ id })) });
  expect(body).toMatchObject({ success: true });
  expect([await Promise.all(contacts.map(rowsOf)), await removals()]).toEqual([expect.arrayContaining([0, 0, 200]), 1]);
  expect((await readAll()).flatMap(({ contacts_ids }) => contacts_ids)).toEqual([]);
  await settleCompanies()(contextOf(app), { customerId: customer.id });
  expect([await Promise.all(contacts.map(rowsOf)), await removals()]).toEqual([[0, 0, 0], 0]);
});

test('the sweep enqueues a turn for deleted contacts if none is queued', async () => {
  const contact = await makeContact();
  await opportunitiesOf([contact], large);
  await customer.delete(`/contacts/${contact}`);
  await app.owner`delete from pgboss.job where data ->> 'customerId' = ${customer.id}`;
  await sweepJobs(contextOf(app), {});
  expect(await waitingMessages(app, 'settle-companies', customer.id)).toBe(1);
});
