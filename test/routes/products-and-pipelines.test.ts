import { expect, test } from 'vitest';
import { createPipeline, salesStages } from '../../src/queries/crm/pipelines.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const create = (more: object = {}): Promise<string> => make(customer, '/products', productBody(more));
const read = async (id: string) => (await customer.get(`/products/${id}`)).body;
const makePipeline = (name: string): Promise<string> =>
  app.db.transaction((sql) =>
    createPipeline(sql, customer.id, {
      name,
      description: 'd',
      currency: 'EUR',
      visibility: 'PRIVATE',
      stages: salesStages.slice(0, 2),
    }),
  );

test("a created product is active and in the subscription's currency, if nothing else is said", async () => {
  await app.owner`update subscriptions set currency = 'CHF' where customer_id = ${customer.id}`;
  const id = await make(customer, '/products', { name: ' Engine ', price: 19.99, unit: 'piece' });
  expect(await read(id)).toMatchObject({ name: 'Engine', currency: 'CHF', active: true, external_id: null });
});

test.each([0, 0.0001, 19.99, 0.1, 1e-4, 123456789.1234, 999999999.9999, 100, 4.35])(
  'a created product stores the price %j exactly',
  async (price) => {
    expect((await read(await create({ price }))).price).toBe(price);
  },
);

test('lists without a test of their own go on by cursor, which counts for one list only', async () => {
  for (let i = 0; i < 3; i += 1) {
    await create({ name: `P${(i * 2) % 3}` });
    await make(customer, '/imports', { object: 'contacts', mode: 'create' });
    await customer.post('/service-handler/enrich-contacts', { filters: {}, max_credits: 0 });
  }
  const { pipeline_id } = (await stagesOf(customer))[0]!;
  let before: unknown = 'x';
  for (const [path, more] of [
    ['/products/list', { order_by: { name: 'DESC' } }],
    ['/stages/list', { pipeline_id }],
    ['/imports/list', {}],
    ['/service-handler/list', { filters: { type: 'enrich_contacts' } }],
  ] as const) {
    const page = (paginate: object) => customer.post(path, { ...more, paginate });
    const first = await page({ limit: 2 });
    const cursor = first.headers['x-next-cursor'];
    const rest = await page({ limit: 10, cursor });
    expect([...first.body, ...rest.body], path).toEqual((await customer.post(path, more)).body);
    expect(rest.body.length, path).toBeGreaterThan(0);
    expect(await page({ cursor: before })).toMatchObject({
      status: 400,
      body: { errors: [{ path: '/paginate/cursor' }] },
    });
    before = cursor;
  }
});

test('the list of products counts the opportunities that use a product and their pipelines', async () => {
  const [used, unused] = [await create(), await create()];
  const [lead, won] = await stagesOf(customer);
  const second = await makePipeline('P');
  const [elsewhere] = (await customer.get(`/pipelines/${second}`)).body.stages;
  const body = await opportunityBody(customer, { products: [{ id: used, price: 1, quantity: 1 }] });
  const ids = [];
  for (const stage of [lead, won, elsewhere])
    ids.push(await make(customer, '/opportunities', { ...body, stage_id: stage.id }));
  const counts = async () =>
    Object.fromEntries(
      (await customer.post('/products/list')).body.map((item: Record<string, unknown>) => [
        item['id'],
        [item['opportunities_count'], item['pipelines_count']],
      ]),
    );
  expect(await counts()).toEqual({ [used]: [3, 2], [unused]: [0, 0] });
});

test('a deletion of a used product keeps its lines readable and editable, but it cannot be added again', async () => {
  const [gone, kept] = [await create({ name: 'Gone' }), await create({ name: 'Kept' })];
  const body = await opportunityBody(customer, { products: [{ id: gone, price: 2.5, quantity: 2 }] });
  const opportunity = await make(customer, '/opportunities', body);
  const patch = (products: object) => customer.patch(`/opportunities/${opportunity}`, { products });
  expect((await customer.delete(`/products/${gone}`)).status).toBe(200);
  for (const answer of [
    await customer.get(`/products/${gone}`),
    await customer.patch(`/products/${gone}`, { name: 'x' }),
    await customer.delete(`/products/${gone}`),
  ])
    expect(answer.status).toBe(404);
  expect((await customer.post('/products/list')).body.map(({ id }: { id: string }) => id)).toEqual([kept]);
  const details = async () => (await customer.get(`/opportunities/${opportunity}`)).body.details;
  expect(await details()).toEqual([{ product_id: gone, name: 'Gone', price: 2.5, quantity: 2, total: 5 }]);
  expect(
    (await patch({ update: [{ id: gone, quantity: 3 }], add: [{ id: kept, price: 1, quantity: 1 }] })).status,
  ).toBe(200);
  expect(await details()).toMatchObject([{ product_id: gone, quantity: 3 }, { product_id: kept }]);
  expect(await patch({ add: [{ id: gone, price: 1, quantity: 1 }] })).toMatchObject({
    status: 404,
    body: { errors: [{ path: '/products/add/0/id' }] },
  });
  expect((await customer.post('/opportunities', body)).status).toBe(404);
  expect((await patch({ remove: [gone] })).status).toBe(200);
  expect(await details()).toMatchObject([{ product_id: kept }]);
});

test('pipelines are listed newest first, with exactly the fields of a list item', async () => {
  const id = await makePipeline('Second');
  const { status, body } = await customer.get('/pipelines');
  expect(status).toBe(200);
  expect(body).toEqual([
    { id, name: 'Second', description: 'd', currency: 'EUR', active: true },
    { id: expect.any(String), name: 'Sales', description: '', currency: 'USD', active: true },
  ]);
});

test('pipelines are returned with their stages in order', async () => {
  const [{ id }] = (await customer.get('/pipelines')).body;
  const answer = await customer.get(`/pipelines/${id}`);
  expect(answer).toMatchObject({ status: 200, headers: { etag: expect.stringMatching(/^"[^"]+"$/) } });
  const { stages, ...pipeline } = answer.body;
  expect(pipeline).toMatchObject({ id, name: 'Sales', description: '', currency: 'USD', visibility: 'PUBLIC' });
  const shown = stages.map((one: Record<string, unknown>) => [one['order'], one['name'], one['status']]);
  expect(shown).toEqual(salesStages.map(({ name, status }, i) => [i + 1, name, status]));
  expect(stages.map((one: Record<string, unknown>) => one['probability_percentage'])).toEqual([10, 25, 50, 75, 100, 0]);
});

test('the stage list has pages, contains one pipeline only, and counts the opportunities of each stage', async () => {
  const pipeline_id = await makePipeline('Second');
  const [lead] = (await customer.get(`/pipelines/${pipeline_id}`)).body.stages;
  await make(customer, '/opportunities', await opportunityBody(customer, { stage_id: lead.id }));
  await make(customer, '/opportunities', await opportunityBody(customer));
  const page = async (page: number) =>
    (await customer.post('/stages/list', { pipeline_id, paginate: { page, limit: 1 } })).body.map(
      (one: Record<string, unknown>) => [one['name'], one['total_opportunities']],
    );
  expect([await page(1), await page(2), await page(3)]).toEqual([[['Lead', 1]], [['Qualified', 0]], []]);
});
