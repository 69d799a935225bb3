import { beforeAll, expect, test } from 'vitest';
import { person, writePeople } from '../catalog/people.ts';
import { creditsOf, customerWith, read, select, unlock, verify } from '../jobs/calls.ts';
import { contextOf, echo, entriesOf, verifyTurn } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { unique, type TestCustomer } from '../setup/factories.ts';

const app = await startApp({ UNLOCK_COST: '3', VERIFY_COST: '2' });

/** Five people of one town, used by this file only. */
const town = unique('Town');
const people = Array.from({ length: 5 }, () => person({ location_locality: town }));
const inTown = { filters: { location_locality: [town] } };

beforeAll(async () => {
  await app.catalog.prepare();
  await writePeople(app.catalog, people);
  await app.catalog.finish();
});

const turn = ({ id }: TestCustomer, limit: number) => verifyTurn(echo(limit))(contextOf(app), { customerId: id });

const start = async (customer: TestCustomer, count: number): Promise<string> =>
  (await verify(customer, { emails: Array.from({ length: count }, (_, i) => ({ email: `${i}@x.example` })) })).body.id;

test('a job shows its progress, its results in order and its cost, page by page', async () => {
  const customer = await customerWith(app, { verification: 100 });
  const id = await start(customer, 5);
  await turn(customer, 3);
  const half = (await read(customer, id)).body;
  expect(half).toMatchObject({
    status: 'PROCESSING',
    processed: 3,
    succeeded: 3,
    credits: { reserved: 10, charged: 6, refunded: 0 },
  });
  expect(half.started_at).not.toBeNull();
  await turn(customer, 3);
  const whole = (await read(customer, id)).body;
  expect(whole).toMatchObject({
    status: 'COMPLETED',
    processed: 5,
    credits: { reserved: 10, charged: 10, refunded: 0 },
  });
  const results = (paginate?: object) => customer.post(`/service-handler/${id}/results`, paginate ? { paginate } : {});
  const first = await results({ limit: 2 });
  expect(first.body[0]).toEqual({
    item: '0@x.example',
    contact_id: null,
    status: 'succeeded',
    reason: null,
    charged: 2,
    reused: false,
    result: null,
    finished_at: expect.any(String),
  });
  const items = first.body.map(({ item }: { item: string }) => item);
  let cursor = first.headers['x-next-cursor'];
  while (cursor) {
    const next = await results({ limit: 2, cursor });
    items.push(...next.body.map(({ item }: { item: string }) => item));
    cursor = next.headers['x-next-cursor'];
  }
  expect(items).toEqual(Array.from({ length: 5 }, (_, i) => `${i}@x.example`));
  expect((await results({ page: 2, limit: 3 })).body.map(({ item }: { item: string }) => item)).toEqual(items.slice(3));
  expect((await results({ page: 1, cursor: first.headers['x-next-cursor'] })).status).toBe(400);
  expect((await results({ cursor: 'nonsense' })).body.errors).toMatchObject([{ path: '/paginate/cursor' }]);
});

test('a job that is cancelled keeps its results, skips the open items, returns their credits, and stays cancelled', async () => {
  const customer = await customerWith(app, { verification: 100 });
  const id = await start(customer, 5);
  await turn(customer, 2);
  const { status, body } = await customer.post(`/service-handler/${id}/cancel`);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    status: 'CANCELLED',
    processed: 5,
    succeeded: 2,
    skipped: 3,
    credits: { reserved: 10, charged: 4, refunded: 6 },
  });
  expect(body).toEqual((await read(customer, id)).body);
  const results = (await customer.post(`/service-handler/${id}/results`)).body;
  expect(results.map((one: { status: string; reason: string | null }) => [one.status, one.reason])).toEqual([
    ['succeeded', null],
    ['succeeded', null],
    ['skipped', 'cancelled'],
    ['skipped', 'cancelled'],
    ['skipped', 'cancelled'],
  ]);
  expect(await customer.post(`/service-handler/${id}/cancel`)).toMatchObject({
    status: 409,
    body: { code: 'conflict' },
  });
  expect(await entriesOf(app, id)).toEqual(['reserve 10', 'charge 4', 'release 6']);
  expect((await creditsOf(customer)).verification).toEqual({ balance: 96, reserved: 0 });
});

test('a job that waits can be cancelled, also one of unlock-contacts, which has no items yet', async () => {
  const customer = await customerWith(app, { subscription: 100 });
  const { id } = (await unlock(customer, { ...inTown, total_records: 5 })).body;
  const { body } = await customer.post(`/service-handler/${id}/cancel`);
  expect(body).toMatchObject({
    status: 'CANCELLED',
    total: 5,
    processed: 0,
    started_at: null,
    credits: { refunded: 15 },
  });
  expect((await customer.post(`/service-handler/${id}/results`)).body).toEqual([]);
});

test('a job is cancelled once by concurrent requests', async () => {
  const customer = await customerWith(app, { verification: 100 });
  const id = await start(customer, 5);
  const answers = await Promise.all(Array.from({ length: 8 }, () => customer.post(`/service-handler/${id}/cancel`)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(7);
  expect(await entriesOf(app, id)).toEqual(['reserve 10', 'release 10']);
});

test('a job is visible only to keys that could have started it', async () => {
  const customer = await customerWith(app, { subscription: 100, verification: 100 });
  const list = (await customer.post('/list-contact', { name: 'List' })).body.id;
  const jobs = {
    unlock_contacts: (await unlock(customer, { ...inTown, total_records: 1 })).body.id,
    unlock_selected_contacts: (await select(customer, { ids: [people[0]!._id] })).body.id,
    verify_email: await start(customer, 1),
    verify_list: (await customer.post(`/list-contact/verify-contacts/${list}`)).body.data.id,
  };
  for (const [scope, seen] of [
    ['payment_prospect:create', ['unlock_contacts', 'unlock_selected_contacts']],
    ['verify_email:create', ['verify_email', 'verify_list']],
    ['list_contacts:read', ['verify_list']],
  ] as const) {
    const key = await customer.withScopes([scope]);
    const listed = (await key.post('/service-handler/list')).body;
    expect(listed.map(({ type }: { type: string }) => type).toSorted(), scope).toEqual(seen);
    const hidden = Object.entries(jobs).filter(([type]) => !(seen as readonly string[]).includes(type));
    for (const [, id] of hidden) expect((await key.post(`/service-handler/${id}/cancel`)).status).toBe(404);
    for (const [type, id] of Object.entries(jobs)) {
      const expected = (seen as readonly string[]).includes(type) ? 200 : 404;
      expect((await read(key, id)).status, `${scope} ${type}`).toBe(expected);
      expect((await key.post(`/service-handler/${id}/results`)).status, `${scope} ${type}`).toBe(expected);
    }
  }
});

test('a job is listed newest first, by status and by type', async () => {
  const customer = await customerWith(app, { subscription: 100, verification: 100 });
  const first = await start(customer, 1);
  const second = await start(customer, 1);
  const third = (await select(customer, { ids: [people[0]!._id] })).body.id;
  await customer.post(`/service-handler/${second}/cancel`);
  const list = async (filters?: object, paginate?: object) =>
    (
      await customer.post('/service-handler/list', {
        ...(filters ? { filters } : {}),
        ...(paginate ? { paginate } : {}),
      })
    ).body.map(({ id }: { id: string }) => id);
  expect(await list()).toEqual([third, second, first]);
  expect(await list({ status: 'PENDING' })).toEqual([third, first]);
  expect(await list({ type: 'verify_email' })).toEqual([second, first]);
  expect(await list({ type: 'verify_email', status: 'CANCELLED' })).toEqual([second]);
  expect(await list({}, { page: 2, limit: 2 })).toEqual([first]);
  expect((await customer.post('/service-handler/list', { filters: { status: 'LOST' } })).status).toBe(400);
});
