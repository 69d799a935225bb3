import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import {
  contactBody,
  opportunityBody,
  recordKinds,
  type Answer,
  type RecordKind,
  type TestCustomer,
} from '../setup/factories.ts';

const app = await startApp();

const kinds: RecordKind[] = [
  ...recordKinds,
  { path: '/list-contact', bodyOf: async () => ({ name: 'List' }), text: 'description' },
];

describe.each(kinds)('records of $path', ({ path, bodyOf, text }) => {
  const customer = customerOfEachTest(app);

  const idOf = ({ body }: Answer): string => body.data?.id ?? body.id;
  const create = async (): Promise<string> => idOf(await customer.post(path, await bodyOf(customer)));
  const read = (id: string): Promise<Answer> => customer.get(`${path}/${id}`);
  const tagOf = async (id: string) => ({ 'if-match': (await read(id)).headers['etag'] as string });
  const change = (id: string, value: string, headers = {}) =>
    customer.patch(`${path}/${id}`, { [text]: value }, headers);
  const remove = (id: string, headers = {}) => customer.delete(`${path}/${id}`, headers);
  const page = (one: object): Promise<Answer> =>
    customer.post(`${path}/list`, path === '/list-contact' ? one : { paginate: one });
  const idsOf = ({ body }: Answer): string[] => body.map(({ id }: { id: string }) => id);

  test('an update changes the fields that are sent, and no others; without fields it changes nothing', async () => {
    const id = await create();
    const before = (await read(id)).body;
    expect((await customer.patch(`${path}/${id}`, {})).status).toBe(200);
    expect((await customer.patch(`${path}/${id}`)).status).toBe(200);
    expect((await read(id)).body).toEqual(before);
    expect(await change(id.toUpperCase(), 'New')).toMatchObject({ status: 200, body: { success: true } });
    const after = (await read(id)).body;
    expect(after).toEqual({ ...before, [text]: 'New', updated_at: after.updated_at });
    expect(after.updated_at > before.updated_at).toBe(true);
  });

  test('with If-Match an update or deletion happens only while the record is unchanged since it was read', async () => {
    const id = await create();
    const first = await tagOf(id);
    expect(first['if-match']).toMatch(/^"[^"]+"$/);
    expect((await change(id, 'a', first)).status).toBe(200);
    expect(await change(id, 'b', first)).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
    expect((await remove(id, first)).status).toBe(412);
    expect((await read(id)).body[text]).toBe('a');
    expect((await remove(id, await tagOf(id))).status).toBe(200);
    expect((await remove(id, { 'if-match': '*' })).status).toBe(404);
  });

  test('of many updates with the same tag one succeeds', async () => {
    const id = await create();
    const tag = await tagOf(id);
    const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => change(id, `v${i}`, tag)));
    const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([200, ...Array.from({ length: 9 }, () => 412)]);
  });

  test('a deleted record is gone from reads and lists, and cannot be changed or deleted again', async () => {
    const id = await create();
    expect(await remove(id)).toMatchObject({ status: 200, body: { success: true, data: { id } } });
    expect(await read(id)).toMatchObject(path === '/company' ? { status: 200, body: null } : { status: 404 });
    expect([(await change(id, 'x')).status, (await remove(id)).status]).toEqual([404, 404]);
    expect((await page({})).body).toEqual([]);
  });

  test('the list is newest first, with each record once on its pages and by cursor', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i += 1) ids.unshift(await create());
    const pages = await Promise.all([1, 2, 3, 4].map((number) => page({ page: number, limit: 2 })));
    expect(pages.map(idsOf)).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4), []]);
    const first = await page({ limit: 3 });
    const rest = await page({ limit: 3, cursor: first.headers['x-next-cursor'] });
    expect([...idsOf(first), ...idsOf(rest)]).toEqual(ids);
    expect(rest.headers).not.toHaveProperty('x-next-cursor');
  });
});

test.each(kinds.filter(({ path }) => path !== '/contacts' && path !== '/company'))(
  'a deleted record of $path cannot be purged',
  async ({ path, bodyOf }) => {
    const customer = await app.customer();
    const { body: created } = await customer.post(path, await bodyOf(customer));
    const address = `${path}/${created.data?.id ?? created.id}`;
    expect((await customer.delete(address)).status).toBe(200);
    expect((await customer.delete(`${address}?purge=true`)).status).toBe(404);
  },
);

test.each([
  ['/contacts', () => contactBody({ work_email: null, phone_numbers: [], list_ids: [randomUUID()] })],
  ['/activities', () => ({ title: ' ', contact_id: randomUUID() })],
  [
    '/opportunities',
    (customer: TestCustomer) =>
      opportunityBody(customer, { products: [{ id: randomUUID(), price: 999_999_999, quantity: 1_000_000 }] }),
  ],
])('an invalid body is 400, also if it refers to an unknown record: %s', async (path, body) => {
  const customer = await app.customer();
  expect((await customer.post(path, await body(customer))).status).toBe(400);
});
