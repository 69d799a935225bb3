import { randomUUID } from 'node:crypto';
import { describe, expect, test, beforeAll } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import {
  contactBody,
  opportunityBody,
  recordKinds,
  type Answer,
  type RecordKind,
  type TestCustomer,
  make,
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

let customer: TestCustomer;

describe.each(recordKinds)('the external_id of $path', ({ path, bodyOf }) => {
  beforeAll(async () => {
    customer = await app.customer();
  });

  const create = async (external_id?: string | null): Promise<Answer> =>
    customer.post(path, await bodyOf(customer, external_id === undefined ? {} : { external_id }));
  const idOf = async (answer: Promise<Answer>): Promise<string> => (await answer).body.data.id;
  const found = async (filters: object): Promise<string[]> =>
    (await customer.post(`${path}/list`, { filters })).body.map(({ id }: { id: string }) => id);

  const expectConflict = ({ status, body }: Answer) => {
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: 'conflict', errors: [{ path: '/external_id' }] });
  };

  test('is unique for each customer: a second record with it is refused, and nothing is written', async () => {
    await create('twice');
    const before = (await found({})).length;
    expectConflict(await create('twice'));
    expect(await found({})).toHaveLength(before);
    const other = await idOf(create('other'));
    expectConflict(await customer.patch(`${path}/${other}`, { external_id: 'twice' }));
    expect((await customer.patch(`${path}/${other}`, { external_id: 'other' })).status).toBe(200);
    customer = await app.customer();
    expect((await create('twice')).status).toBe(201);
  });

  test('is taken once by many concurrent callers', async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => create('raced')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 201)) expectConflict(answer);
    expect(await found({ external_id: 'raced' })).toHaveLength(1);
  });

  test('is free again when it was cleared with null, or when its record was deleted', async () => {
    const id = await idOf(create('freed'));
    expect((await customer.patch(`${path}/${id}`, { external_id: null })).status).toBe(200);
    const next = await idOf(create('freed'));
    await customer.delete(`${path}/${next}`);
    expect((await create('freed')).status).toBe(201);
  });

  test('has up to 255 characters of any script, and is shown as given', async () => {
    for (const given of ['𝒳'.repeat(255), ' \t', 'ÁDA\u0301']) {
      const id = await idOf(create(given));
      expect((await customer.get(`${path}/${id}`)).body.external_id).toBe(given);
    }
  });
});

test('a contact with a taken external_id that also refers to an unknown list and user is 404, not 409', async () => {
  const by = await app.customer();
  await make(by, '/contacts', contactBody({ external_id: 'taken' }));
  const id = await make(by, '/contacts', contactBody());
  const unknown = { external_id: 'taken', list_ids: [crypto.randomUUID()], assigned_to: crypto.randomUUID() };
  const about = { code: 'not_found', errors: [{ path: '/list_ids/0' }, { path: '/assigned_to' }] };
  for (const given of [
    await by.post('/contacts', contactBody(unknown)),
    await by.patch(`/contacts/${id}`, unknown),
    await by.call('PATCH', `/contacts/${id}`, unknown, { 'if-match': '"old"' }),
  ])
    expect(given).toMatchObject({ status: 404, body: about });
});

test('rules of a list compare external_id exactly, with white space kept', async () => {
  const own = await app.customer();
  const make = async (external_id: string): Promise<string> =>
    (await own.post('/contacts', contactBody({ external_id }))).body.data.id;
  const [upper, lower, spaced] = [await make('ADA'), await make('ada'), await make(' ada')];
  const members = async (operator: string, value: string): Promise<string[]> => {
    const rules = [{ field: 'external_id', operator, value }];
    const list = (await own.post('/list-contact', { name: value, rules })).body.id;
    const { body } = await own.post('/contacts/list', { filters: { list_id: list } });
    return body.map(({ id }: { id: string }) => id).sort();
  };
  expect(await members('equals', 'ada')).toEqual([lower]);
  expect(await members('equals', ' ada')).toEqual([spaced]);
  expect(await members('contains', 'ada')).toEqual([lower, spaced].sort());
  expect(await members('ends_with', 'DA')).toEqual([upper]);
  expect(await members('in', 'ADA, ada')).toEqual([upper, lower].sort());
});
