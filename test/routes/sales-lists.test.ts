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
    [{ name: 'STRASSE' }, ['Straße']],
    [{ name: { contains: 'COLE' } }, ['école']],
    [{ name: { ne: 'zebra' } }, ['école', 'Straße']],
    [{ price: 19.99 }, ['école']],
    [{ price: { between: [0.1, 19.99] } }, ['école', 'Straße']],
    [{ price: { gt: 0.1 }, currency: 'eur' }, ['Zebra']],
    [{ active: true }, ['Zebra', 'Straße']],
    [{ active: { ne: true } }, ['école']],
    [{ external_id: 'p-1' }, ['Straße']],
    [{ external_id: 'P-1' }, []],
    [{ external_id: null }, ['Zebra', 'école']],
    [{ unit: { starts_with: 'ta' } }, ['Straße']],
    [{ _or: [{ price: { gte: 100 } }, { unit: 'tag' }] }, ['Zebra', 'Straße']],
    [{ created_at: { lt: '2020-01-01T00:00:00Z' } }, []],
    [{ updated_at: { gt: '2020-01-01T00:00:00Z' } }, ['Zebra', 'école', 'Straße']],
  ])('keeps to the filter %j', async (filters, expected) => {
    expect(await namesOf('/products', filters)).toEqual(expected);
  });

  test('is sorted by name without regard to case and accents, and by price as numbers', async () => {
    expect(await namesOf('/products', {}, { name: 'ASC' })).toEqual(['école', 'Straße', 'Zebra']);
    expect(await namesOf('/products', {}, { price: 'DESC' })).toEqual(['Zebra', 'école', 'Straße']);
    expect(await namesOf('/products', {}, { updated_at: 'ASC' })).toEqual(['Straße', 'école', 'Zebra']);
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

  test('refuses conditions and orders of unknown fields, and values of another type', async () => {
    for (const filters of [{ deleted_at: null }, { price: '5' }, { active: 'yes' }, { search: 'x' }])
      expect((await customer.post('/products/list', { filters })).status).toBe(400);
    expect((await customer.post('/products/list', { order_by: { active: 'ASC' } })).status).toBe(400);
  });
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
    const product = await make(customer, '/products', productBody());
    const create = async (more: object) => make(customer, '/opportunities', await opportunityBody(customer, more));
    await create({ name: 'One', contacts_ids: [ids.contact], description: 'Größe', external_id: 'o-1' });
    await create({
      name: 'Two',
      company_id: ids.company,
      stage_id: stages[1]!.id,
      priority: 'HIGHT',
      products: [{ id: product, price: 0.3, quantity: 3 }],
    });
    await create({ name: 'Three', company_id: ids.gone, close_date: '2030-01-01T00:00:00Z', contacts_ids: [ids.left] });
    await customer.delete(`/contacts/${ids.left}`);
    await customer.delete(`/company/${ids.gone}`);
  });

  test.each<[string, () => object, string[]]>([
    ['a contact', () => ({ contact_id: ids.contact }), ['One']],
    ['another contact', () => ({ contact_id: { ne: ids.contact } }), ['Three', 'Two']],
    ['no contact', () => ({ contact_id: null }), ['Three', 'Two']],
    ['some contact', () => ({ contact_id: { is_null: false } }), ['One']],
    ['a company', () => ({ company_id: ids.company }), ['Two']],
    ['a deleted company', () => ({ company_id: ids.gone }), []],
    ['a deleted contact', () => ({ contact_id: ids.left }), []],
    ['stages that are none', () => ({ stage_id: [] }), []],
    ['no company, or a deleted one', () => ({ company_id: null }), ['Three', 'One']],
    ['a pipeline', () => ({ pipeline_id: stages[0]!.pipeline_id }), ['Three', 'Two', 'One']],
    ['another pipeline', () => ({ pipeline_id: { not_in: [stages[0]!.pipeline_id] } }), []],
    ['several stages', () => ({ stage_id: { in: [stages[1]!.id, stages[2]!.id] } }), ['Two']],
    ['a value', () => ({ price: 0.9 }), ['Two']],
    ['a priority in any case', () => ({ priority: 'hight' }), ['Two']],
    ['a text without its accents', () => ({ description: { contains: 'grosse' } }), ['One']],
    ['a person', () => ({ user_id_assigned: customer.adminId, name: ['two', 'THREE'] }), ['Three', 'Two']],
    ['a time', () => ({ close_date: { gte: '2030-01-01T00:00:00Z' } }), ['Three']],
    ['an external id', () => ({ external_id: { starts_with: 'o-' } }), ['One']],
  ])('keeps to a filter by %s', async (_name, filters, expected) => {
    expect(await namesOf('/opportunities', filters())).toEqual(expected);
  });

  test('is sorted by value, and by the company with those without one last', async () => {
    expect((await namesOf('/opportunities', {}, { price: 'DESC' }))[0]).toBe('Two');
    expect((await namesOf('/opportunities', {}, { company_id: 'ASC' }))[0]).toBe('Two');
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
