import { expect, test } from 'vitest';
import { createPipeline, salesStages } from '../../src/queries/crm/pipelines.ts';
import { startApp } from '../setup/app.ts';
import { make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();

const create = (more: object = {}, by = customer): Promise<string> => make(by, '/products', productBody(more));
const read = async (id: string, by = customer) => (await by.get(`/products/${id}`)).body;

test("a created product is returned with every field of the contract, active and in the subscription's currency", async () => {
  const own = await app.customer();
  await app.owner`update subscriptions set currency = 'CHF' where customer_id = ${own.id}`;
  const answer = await own.post('/products', { name: ' Engine ', price: 19.99, unit: 'piece' });
  expect(answer).toMatchObject({ status: 201, body: { success: true, message: expect.any(String) } });
  const { id } = answer.body.data;
  expect(await read(id, own)).toEqual({
    id,
    name: 'Engine',
    currency: 'CHF',
    price: 19.99,
    unit: 'piece',
    active: true,
    external_id: null,
    created_at: expect.stringMatching(/Z$/),
    updated_at: expect.stringMatching(/Z$/),
  });
});

test('a created product stores its fields as given, with the currency in upper case', async () => {
  const given = { name: 'N', price: 0, unit: 'hour', active: false };
  expect(await read(await create({ ...given, currency: 'eur' }))).toMatchObject({ ...given, currency: 'EUR' });
});

test.each([0, 0.0001, 19.99, 0.1, 1e-4, 123456789.1234, 999999999.9999, 100, 4.35])(
  'a created product stores the price %j exactly',
  async (price) => {
    expect((await read(await create({ price }))).price).toBe(price);
  },
);

test('the list of products and the lists of opportunities, stages, imports and jobs go on by cursor, which counts for one list only', async () => {
  const own = await app.customer();
  for (let i = 0; i < 3; i += 1) {
    await create({}, own);
    await make(own, '/opportunities', await opportunityBody(own));
    await make(own, '/imports', { object: 'contacts', mode: 'create' });
    await app.owner`
        insert into jobs (customer_id, type, pool, total, sync_crm, cost, reserved) values (${own.id}, 'verify_email', 'verification', 1, false, 2, 0)`;
  }
  const { pipeline_id } = (await stagesOf(own))[0]!;
  const rows = async (path: string, more: object = {}) => {
    const { body, headers } = await own.post(path, more);
    return { ids: body.map(({ id }: { id: string }) => id), cursor: headers['x-next-cursor'] };
  };
  let before: unknown;
  for (const [path, more] of [
    ['/products/list', {}],
    ['/opportunities/list', { filters: {} }],
    ['/stages/list', { pipeline_id }],
    ['/imports/list', {}],
    ['/service-handler/list', { filters: { status: 'PENDING' } }],
  ] as const) {
    const all = await rows(path, more);
    const ids: string[] = [];
    let cursor: unknown;
    do {
      const page = await rows(path, { ...more, paginate: { limit: 2, ...(cursor === undefined ? {} : { cursor }) } });
      ids.push(...page.ids);
      ({ cursor } = page);
    } while (cursor !== undefined && ids.length < 10);
    expect(ids, path).toEqual(all.ids);
    const foreign = await own.post(path, { ...more, paginate: { cursor: before ?? 'x' } });
    expect(foreign, path).toMatchObject({ status: 400, body: { errors: [{ path: '/paginate/cursor' }] } });
    before = (await rows(path, { ...more, paginate: { limit: 1 } })).cursor;
  }
  const { cursor } = await rows('/products/list', { paginate: { limit: 1 } });
  const [first, second] = (await rows('/products/list')).ids;
  await own.delete(`/products/${first}`);
  expect((await rows('/products/list', { paginate: { limit: 1, cursor } })).ids).toEqual([second]);
});

test('the list of products counts the opportunities that use a product and their pipelines', async () => {
  const own = await app.customer();
  const [used, unused] = [await create({}, own), await create({}, own)];
  const [lead, won] = await stagesOf(own);
  const second = await app.db.transaction((sql) =>
    createPipeline(sql, own.id, {
      name: 'P',
      description: '',
      currency: 'USD',
      visibility: 'PUBLIC',
      stages: salesStages,
    }),
  );
  const [elsewhere] = (await own.get(`/pipelines/${second}`)).body.stages;
  const body = await opportunityBody(own, { products: [{ id: used, price: 1, quantity: 1 }] });
  const ids = [];
  for (const stage of [lead, won, elsewhere])
    ids.push(await make(own, '/opportunities', { ...body, stage_id: stage.id }));
  const counts = async () =>
    Object.fromEntries(
      (await own.post('/products/list')).body.map((item: Record<string, unknown>) => [
        item['id'],
        [item['opportunities_count'], item['pipelines_count']],
      ]),
    );
  expect(await counts()).toEqual({ [used]: [3, 2], [unused]: [0, 0] });
  await own.patch(`/opportunities/${ids[0]}`, {
    products: { remove: [used], add: [{ id: unused, price: 1, quantity: 1 }] },
  });
  expect(await counts()).toEqual({ [used]: [2, 2], [unused]: [1, 1] });
  await own.patch(`/opportunities/${ids[2]}`, { stage_id: lead!.id });
  await own.delete(`/opportunities/${ids[0]}`);
  expect(await counts()).toEqual({ [used]: [2, 1], [unused]: [0, 0] });
});

test('an update of the price does not change the lines of opportunities; of the name shows in them', async () => {
  const id = await create({ price: 5, name: 'Old' });
  const opportunity = await make(
    customer,
    '/opportunities',
    await opportunityBody(customer, { products: [{ id, price: 4, quantity: 2 }] }),
  );
  await customer.patch(`/products/${id}`, { price: 6, name: 'New' });
  const { body } = await customer.get(`/opportunities/${opportunity}`);
  expect(body).toMatchObject({
    price: 8,
    details: [{ product_id: id, name: 'New', price: 4, quantity: 2, total: 8 }],
  });
});

test('a deletion of a used product keeps its lines readable and editable, but it cannot be added again', async () => {
  const own = await app.customer();
  const [gone, kept] = [await create({ name: 'Gone' }, own), await create({ name: 'Kept' }, own)];
  const body = await opportunityBody(own, { products: [{ id: gone, price: 2.5, quantity: 2 }] });
  const opportunity = await make(own, '/opportunities', body);
  const patch = (products: object) => own.patch(`/opportunities/${opportunity}`, { products });
  expect((await own.delete(`/products/${gone}`)).status).toBe(200);
  for (const answer of [
    await own.get(`/products/${gone}`),
    await own.patch(`/products/${gone}`, { name: 'x' }),
    await own.delete(`/products/${gone}`),
  ])
    expect(answer.status).toBe(404);
  expect((await own.post('/products/list')).body.map(({ id }: { id: string }) => id)).toEqual([kept]);
  const details = async () => (await own.get(`/opportunities/${opportunity}`)).body.details;
  expect(await details()).toEqual([{ product_id: gone, name: 'Gone', price: 2.5, quantity: 2, total: 5 }]);
  expect(
    (await patch({ update: [{ id: gone, quantity: 3 }], add: [{ id: kept, price: 1, quantity: 1 }] })).status,
  ).toBe(200);
  expect(await details()).toMatchObject([{ product_id: gone, quantity: 3 }, { product_id: kept }]);
  expect(await patch({ add: [{ id: gone, price: 1, quantity: 1 }] })).toMatchObject({
    status: 404,
    body: { errors: [{ path: '/products/add/0/id' }] },
  });
  expect((await own.post('/opportunities', body)).status).toBe(404);
  expect((await patch({ remove: [gone] })).status).toBe(200);
  expect(await details()).toMatchObject([{ product_id: kept }]);
});
