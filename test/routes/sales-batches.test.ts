import { expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, productBody, unique } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const batch = async (path: string, operation: string, body: object, by = customer) => {
  const { status, body: answer } = await by.post(`${path}/batch/${operation}`, body);
  expect(status, JSON.stringify(answer)).toBe(200);
  return answer.data;
};
const read = async (path: string, id: string) => (await customer.get(`${path}/${id}`)).body;
const idOf = async (path: string, external_id: string): Promise<string> =>
  (await customer.post(`${path}/list`, { filters: { external_id } })).body[0].id;

const times = { estimated_closing_date: '2026-03-14T00:00:00.000Z', close_date: '2026-06-30T00:00:00.000Z' };
const item = (external_id: string, more: object = {}) => ({
  external_id,
  name: external_id,
  user_id_assigned: customer.adminId,
  stage_id: { pipeline: 'sales', stage: 'QUALIFIED' },
  ...times,
  ...more,
});
const makeAll = async () => ({
  company: await make(customer, '/company', companyBody({ external_id: 'co' })),
  contact: await make(customer, '/contacts', contactBody({ external_id: 'c' })),
  product: await make(customer, '/products', productBody({ external_id: 'p', name: 'Engine' })),
});

test('a batch of opportunities refers to contacts, companies, products and stages by other values than ids', async () => {
  const { company, contact, product } = await makeAll();
  const { results } = await batch('/opportunities', 'create', {
    items: [
      item('o', {
        company_id: { external_id: 'co' },
        contacts_ids: [{ external_id: 'c' }, contact],
        products: [{ id: { external_id: 'p' }, price: 0.1, quantity: 3 }],
      }),
      item('plain'),
    ],
  });
  expect(await read('/opportunities', results[0].id)).toMatchObject({
    company_id: company,
    contacts_ids: [contact],
    details: [{ product_id: product, name: 'Engine', price: 0.1, quantity: 3, total: 0.3 }],
    price: 0.3,
    priority: 'NONE',
    external_id: 'o',
  });
  expect(await read('/opportunities', results[1].id)).toMatchObject({ details: [], contacts_ids: [], price: 0 });
  const changed = await batch('/opportunities', 'update', {
    match: 'external_id',
    items: [
      {
        external_id: 'o',
        stage_id: { pipeline: 'Sales', stage: 'won' },
        products: { update: [{ id: { external_id: 'p' }, quantity: 5 }] },
      },
    ],
  });
  expect(changed.results).toMatchObject([{ status: 'updated' }]);
  expect(await read('/opportunities', results[0].id)).toMatchObject({ price: 0.5, details: [{ quantity: 5 }] });
  const activity = await batch('/activities', 'create', {
    items: [
      {
        title: 'T',
        opportunity_id: { external_id: 'o' },
        contact_id: { external_id: 'c' },
        company_id: { external_id: 'co' },
      },
    ],
  });
  expect(await read('/activities', activity.results[0].id)).toMatchObject({
    opportunity_id: results[0].id,
    contact_id: contact,
    company_id: company,
  });
});

test('a batch of opportunities fails an item that refers to what does not exist, or to what another customer has, in the same words', async () => {
  await makeAll();
  const other = await app.customer();
  await make(other, '/company', companyBody({ external_id: 'theirs' }));
  const errorOf = async (more: object) => {
    const { results } = await batch('/opportunities', 'create', { items: [item('o', more), item(unique('good'))] });
    expect(results[1].status).toBe('created');
    return results[0].error;
  };
  const foreign = await errorOf({ company_id: { external_id: 'theirs' } });
  const absent = await errorOf({ company_id: { external_id: 'absent' } });
  expect(JSON.stringify(foreign)).toBe(JSON.stringify(absent).replaceAll('absent', 'theirs'));
  const message = 'no company has the external_id "theirs"';
  expect(foreign).toMatchObject({ code: 'not_found', errors: [{ path: '/company_id', message }] });
  const paths = async (more: object) => (await errorOf(more)).errors.map(({ path }: { path: string }) => path);
  expect(await paths({ contacts_ids: [{ external_id: 'c' }, { external_id: 'x' }] })).toEqual(['/contacts_ids/1']);
  expect(await paths({ products: [{ id: { external_id: 'x' }, price: 1, quantity: 1 }] })).toEqual(['/products/0/id']);
  expect(await paths({ stage_id: { pipeline: 'Sales', stage: 'x' } })).toEqual(['/stage_id']);
  const twice = { id: { external_id: 'p' }, price: 1, quantity: 1 };
  expect(await errorOf({ products: [twice, twice] })).toMatchObject({ code: 'validation_failed' });
});

test('a batch of opportunities sent again by upsert changes nothing, and an array of products replaces all lines', async () => {
  await makeAll();
  await make(customer, '/products', productBody({ external_id: 'q' }));
  const line = (external_id: string, quantity = 1) => ({ id: { external_id }, price: 1.5, quantity });
  const sent = (...products: object[]) => ({
    match: 'external_id',
    items: [item('o', { contacts_ids: [{ external_id: 'c' }], products })],
  });
  expect((await batch('/opportunities', 'upsert', sent(line('p')))).counts.created).toBe(1);
  const id = await idOf('/opportunities', 'o');
  const before = await read('/opportunities', id);
  expect((await batch('/opportunities', 'upsert', sent(line('p')))).counts.unchanged).toBe(1);
  expect(await read('/opportunities', id)).toEqual(before);
  expect((await batch('/opportunities', 'upsert', sent(line('q', 2), line('p')))).counts.updated).toBe(1);
  expect(await read('/opportunities', id)).toMatchObject({ price: 4.5, details: [{ quantity: 2 }, { quantity: 1 }] });
  await customer.delete(`/products/${await idOf('/products', 'q')}`);
  const kept = (await read('/opportunities', id)).details.map(
    ({ product_id, price, quantity }: Record<string, unknown>) => ({ id: product_id, price, quantity }),
  );
  const again = await batch('/opportunities', 'update', { items: [{ id, products: kept }] });
  expect(again.counts.unchanged).toBe(1);
});
