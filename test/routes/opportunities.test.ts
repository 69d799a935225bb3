import { beforeAll, describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import {
  companyBody,
  contactBody,
  make,
  opportunityBody,
  productBody,
  stagesOf,
  type Answer,
  type TestCustomer,
} from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();

const create = async (more: object = {}, by = customer): Promise<string> =>
  make(by, '/opportunities', await opportunityBody(by, more));
const read = async (id: string, by = customer) => (await by.get(`/opportunities/${id}`)).body;
const makeContact = (by = customer): Promise<string> => make(by, '/contacts', contactBody());
const makeCompany = (by = customer): Promise<string> => make(by, '/company', companyBody());
const makeProduct = (more: object = {}, by = customer): Promise<string> => make(by, '/products', productBody(more));
const makeProducts = (count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => makeProduct({ name: `P${index}` })));
const line = (id: string, price = 1, quantity = 1) => ({ id, price, quantity });
const absent = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

const faultPaths = ({ body }: Answer): string[] =>
  body.errors.map(({ path }: { path: string }) => path).toSorted((a: string, b: string) => (a < b ? -1 : 1));

test('a created opportunity keeps a repeated contact once, in the given order, and dates to the millisecond, in UTC', async () => {
  const [a, b] = [await makeContact(), await makeContact()];
  const id = await create({
    contacts_ids: [b, a, b.toUpperCase()],
    estimated_closing_date: '2026-01-01T01:00:00.123987+02:00',
    close_date: '9999-12-31T23:59:59.9999999Z',
  });
  expect(await read(id)).toMatchObject({
    contacts_ids: [b, a],
    estimated_closing_date: '2025-12-31T23:00:00.123Z',
    close_date: '9999-12-31T23:59:59.999Z',
  });
});

test('lines of an opportunity stand in the order in which they were added, with their exact total', async () => {
  const [a, b, c, d] = (await makeProducts(4)) as [string, string, string, string];
  const id = await create({ products: [line(b, 0.0001, 3), line(a, 12.3456, 7)] });
  const products = { remove: [b], update: [{ id: a, price: 0.1 }], add: [line(d, 19.99, 2), line(c, 0.2)] };
  expect((await customer.patch(`/opportunities/${id}`, { products })).status).toBe(200);
  expect(await read(id)).toMatchObject({
    price: 40.88,
    details: [
      { product_id: a, name: 'P0', price: 0.1, quantity: 7, total: 0.7 },
      { product_id: d, name: 'P3', price: 19.99, quantity: 2, total: 39.98 },
      { product_id: c, name: 'P2', price: 0.2, quantity: 1, total: 0.2 },
    ],
  });
});

test('a merge of contacts or companies moves their opportunities, and names the contact that stays once', async () => {
  const [kept, merged, other] = [await makeContact(), await makeContact(), await makeContact()];
  const [company, gone] = [await makeCompany(), await makeCompany()];
  const id = await create({ contacts_ids: [merged, other, kept], company_id: gone });
  await customer.post('/contacts/merge', { id: kept, merge_ids: [merged] });
  await customer.post('/company/merge', { id: company, merge_ids: [gone] });
  expect(await read(id)).toMatchObject({ contacts_ids: [kept, other], company_id: company });
});

const refusals = async () => {
  const [here, also, elsewhere] = (await makeProducts(3)) as [string, string, string];
  const id = await create({ products: [line(here), line(also)] });
  return { id, here, also, elsewhere };
};
type Ids = Awaited<ReturnType<typeof refusals>>;

test.each<[string, number, (ids: Ids) => object, string[]]>([
  [
    'adds an existing line',
    409,
    ({ here, elsewhere }) => ({ add: [line(elsewhere), line(here)] }),
    ['/products/add/1/id'],
  ],
  ['removes a missing line', 404, ({ here, elsewhere }) => ({ remove: [here, elsewhere] }), ['/products/remove/1']],
  [
    'updates a missing line',
    404,
    ({ elsewhere }) => ({ update: [{ id: elsewhere, quantity: 2 }] }),
    ['/products/update/0/id'],
  ],
  ['adds an unknown product', 404, ({ here }) => ({ add: [line(absent)], remove: [here] }), ['/products/add/0/id']],
  [
    'misses several',
    404,
    ({ elsewhere, here }) => ({ add: [line(absent), line(here)], remove: [elsewhere] }),
    ['/products/add/0/id', '/products/remove/0'],
  ],
  ['adds twice', 400, ({ elsewhere }) => ({ add: [line(elsewhere), line(elsewhere)] }), ['/products/add/1/id']],
  ['removes twice', 400, ({ here }) => ({ remove: [here, here.toUpperCase()] }), ['/products/remove/1']],
  ['removes and adds again', 400, ({ here }) => ({ add: [line(here)], remove: [here] }), ['/products/remove/0']],
  [
    'updates and removes',
    400,
    ({ here }) => ({ remove: [here], update: [{ id: here, quantity: 2 }] }),
    ['/products/update/0/id'],
  ],
])('an update of products that %s is %i, says where, and changes nothing', async (name, status, productsOf, paths) => {
  const ids = await refusals();
  const before = await read(ids.id);
  const answer = await customer.patch(`/opportunities/${ids.id}`, { name, products: productsOf(ids) });
  expect([answer.status, faultPaths(answer)]).toEqual([status, paths]);
  expect(await read(ids.id)).toEqual(before);
});

test('the total of an opportunity stays below 10^11 on create and update, and is exact up to that', async () => {
  const [a, b] = (await makeProducts(2)) as [string, string];
  const most = [line(a, 99_999.9999, 1_000_000), line(b, 99.9999, 1)];
  const id = await create({ products: most });
  expect((await read(id)).price).toBe(99_999_999_999.9999);
  const body = await opportunityBody(customer, { products: [line(a, 99_999.9999, 1_000_000), line(b, 100, 1)] });
  const refusal = { status: 400, body: { code: 'validation_failed', errors: [{ path: '/products' }] } };
  expect(await customer.post('/opportunities', body)).toMatchObject(refusal);
  const products = { update: [{ id: b, price: 100 }] };
  expect(await customer.patch(`/opportunities/${id}`, { name: 'x', products })).toMatchObject(refusal);
  expect(await read(id)).toMatchObject({ name: 'Deal', price: 99_999_999_999.9999 });
});

test('ETag and If-Match of opportunities cover everything that the response shows: lines, product names, contacts, the company', async () => {
  const [contact, company, product] = [await makeContact(), await makeCompany(), await makeProduct()];
  const id = await create({ contacts_ids: [contact], company_id: company, products: [line(product)] });
  const tags = [];
  const changes = [
    () => customer.patch(`/opportunities/${id}`, { products: { update: [{ id: product, quantity: 2 }] } }),
    () => customer.patch(`/products/${product}`, { name: 'Renamed' }),
    () => customer.delete(`/contacts/${contact}`),
    () => customer.delete(`/company/${company}`),
  ];
  for (const change of changes) {
    tags.push((await customer.get(`/opportunities/${id}`)).headers['etag']);
    expect((await change()).status).toBe(200);
  }
  tags.push((await customer.get(`/opportunities/${id}`)).headers['etag']);
  expect(new Set(tags).size).toBe(5);
});

test('ETag and If-Match of opportunities give 404 before 412, and 412 before 409', async () => {
  const [here, elsewhere] = (await makeProducts(2)) as [string, string];
  const id = await create({ products: [line(here)] });
  const patch = async (products: object) =>
    (await customer.patch(`/opportunities/${id}`, { products }, { 'if-match': '"stale"' })).status;
  expect(await patch({ remove: [elsewhere], add: [line(here)] })).toBe(404);
  expect(await patch({ add: [line(here)] })).toBe(412);
});

test.each([5, {}, 'no id', ['no id'], [5], Array.from({ length: 101 }, () => '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b')])(
  'a filter by an id that is %j is 400',
  async (value) => {
    for (const name of ['stage_id', 'company_id', 'contact_id']) {
      const { status, body } = await customer.post('/opportunities/list', { filters: { [name]: value } });
      expect(status, name).toBe(400);
      expect(body.errors.length).toBeGreaterThan(0);
      for (const { path } of body.errors) expect(path).toMatch(new RegExp(`^/filters/${name}`));
    }
  },
);

describe('the list of opportunities', () => {
  let customer: TestCustomer;
  let ids: Record<'contact' | 'left' | 'company' | 'gone', string>;
  let stages: { id: string; pipeline_id: string }[];
  beforeAll(async () => {
    customer = await app.customer();
    stages = await stagesOf(customer);
    ids = {
      contact: await makeContact(customer),
      left: await makeContact(customer),
      company: await makeCompany(customer),
      gone: await makeCompany(customer),
    };
    await create({ name: 'One', contacts_ids: [ids.contact] }, customer);
    await create({ name: 'Two', company_id: ids.company, stage_id: stages[1]!.id }, customer);
    await create({ name: 'Three', company_id: ids.gone, contacts_ids: [ids.left] }, customer);
    await customer.delete(`/contacts/${ids.left}`);
    await customer.delete(`/company/${ids.gone}`);
  });

  const namesOf = async (filters: object, by = customer): Promise<unknown[]> =>
    (await by.post('/opportunities/list', { filters })).body.map(({ name }: { name: string }) => name);

  test.each<[string, () => object, string[]]>([
    ['another contact', () => ({ contact_id: { ne: ids.contact } }), ['Three', 'Two']],
    ['no contact', () => ({ contact_id: null }), ['Three', 'Two']],
    ['some contact', () => ({ contact_id: { is_null: false } }), ['One']],
    ['a deleted company', () => ({ company_id: ids.gone }), []],
    ['a deleted contact', () => ({ contact_id: ids.left }), []],
    ['no company, or a deleted one', () => ({ company_id: null }), ['Three', 'One']],
    ['another pipeline', () => ({ pipeline_id: { not_in: [stages[0]!.pipeline_id] } }), []],
    ['several stages', () => ({ stage_id: { in: [stages[1]!.id, stages[2]!.id] } }), ['Two']],
  ])('keeps to a filter by %s', async (_name, filters, expected) => {
    expect(await namesOf(filters())).toEqual(expected);
  });

  test('is empty for another customer, who uses the same ids, and refuses the cursor of this one', async () => {
    const other = await app.customer();
    for (const filters of [{ contact_id: ids.contact }, { company_id: ids.company }, { stage_id: stages[0]!.id }])
      expect(await namesOf(filters, other)).toEqual([]);
    const { headers } = await customer.post('/opportunities/list', { paginate: { limit: 1 } });
    const cursor = headers['x-next-cursor'];
    expect((await other.post('/opportunities/list', { paginate: { cursor } })).status).toBe(400);
  });
});
