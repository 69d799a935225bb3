import { beforeAll, describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import {
  companyBody,
  contactBody,
  make,
  opportunityBody,
  productBody,
  stagesOf,
  type TestCustomer,
} from '../setup/factories.ts';

const app = await startApp();
let customer: TestCustomer;
beforeAll(async () => {
  customer = await app.customer();
});

const listed = async (path: string, body: object, by = customer) => {
  const { status, body: rows } = await by.post(`${path}/list`, body);
  expect(status, JSON.stringify(rows)).toBe(201);
  return rows as Record<string, unknown>[];
};
const namesOf = async (path: string, filters: object, order_by?: object): Promise<unknown[]> =>
  (await listed(path, { filters, ...(order_by && { order_by }) })).map(({ name }) => name);

describe('the list of products', () => {
  beforeAll(async () => {
    for (const [name, price, more] of [
      ['Straße', 0.1, { unit: 'Tag', currency: 'EUR', external_id: 'p-1' }],
      ['école', 19.99, { active: false }],
      ['Zebra', 100, { currency: 'EUR' }],
    ] as const)
      await make(customer, '/products', productBody({ name, price, ...more }));
  });

  test.each([
    [{ name: { contains: 'COLE' } }, ['école']],
    [{ price: { between: [0.1, 19.99] } }, ['école', 'Straße']],
    [{ active: { ne: true } }, ['école']],
    [{ external_id: 'P-1' }, []],
    [{ _or: [{ price: { gte: 100 } }, { unit: 'tag' }] }, ['Zebra', 'Straße']],
  ])('keeps to the filter %j', async (filters, expected) => {
    expect(await namesOf('/products', filters)).toEqual(expected);
  });

  test.each([undefined, { price: 'ASC' }, { name: 'DESC' }, { external_id: 'ASC' }, { updated_at: 'DESC' }])(
    'is read whole by cursors in the order %j',
    async (order_by) => {
      const order = order_by && { order_by };
      const all = await listed('/products', { ...order });
      const pages = [];
      let cursor: unknown;
      do {
        const paginate = { limit: 1, ...(cursor !== undefined && { cursor }) };
        const { status, body, headers } = await customer.post('/products/list', { ...order, paginate });
        expect(status, JSON.stringify(body)).toBe(201);
        pages.push(...body);
        cursor = headers['x-next-cursor'];
      } while (cursor !== undefined);
      expect(pages).toEqual(all);
    },
  );
});

describe('the list of opportunities', () => {
  let ids: Record<'contact' | 'left' | 'company' | 'gone', string>;
  let stages: { id: string; pipeline_id: string }[];
  beforeAll(async () => {
    stages = await stagesOf(customer);
    ids = {
      contact: await make(customer, '/contacts', contactBody()),
      left: await make(customer, '/contacts', contactBody()),
      company: await make(customer, '/company', companyBody()),
      gone: await make(customer, '/company', companyBody()),
    };
    const create = async (more: object) => make(customer, '/opportunities', await opportunityBody(customer, more));
    await create({ name: 'One', contacts_ids: [ids.contact] });
    await create({
      name: 'Two',
      company_id: ids.company,
      stage_id: stages[1]!.id,
    });
    await create({ name: 'Three', company_id: ids.gone, contacts_ids: [ids.left] });
    await customer.delete(`/contacts/${ids.left}`);
    await customer.delete(`/company/${ids.gone}`);
  });

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
    expect(await namesOf('/opportunities', filters())).toEqual(expected);
  });

  test('is empty for another customer, who uses the same ids, and refuses the cursor of this one', async () => {
    const other = await app.customer();
    for (const filters of [{ contact_id: ids.contact }, { company_id: ids.company }, { stage_id: stages[0]!.id }])
      expect(await listed('/opportunities', { filters }, other)).toEqual([]);
    const { headers } = await customer.post('/opportunities/list', { paginate: { limit: 1 } });
    const cursor = headers['x-next-cursor'];
    expect((await other.post('/opportunities/list', { paginate: { cursor } })).status).toBe(400);
  });
});
