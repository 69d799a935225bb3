import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody, type Answer } from '../setup/factories.ts';

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

test('a created opportunity is refused with the same product twice, in whichever spelling of its id', async () => {
  const products = [line(absent), line(absent.toUpperCase())];
  const answer = await customer.post('/opportunities', await opportunityBody(customer, { products }));
  expect([answer.status, faultPaths(answer)]).toEqual([400, ['/products/1/id']]);
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
