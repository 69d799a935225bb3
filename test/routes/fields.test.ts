import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, productBody } from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();

interface Field {
  name: string;
  type: string;
  required: boolean;
  writable: boolean;
  nullable: boolean;
  filterable: boolean;
  sortable: boolean;
  max_length?: number;
  custom: boolean;
}
const fieldsOf = async (object: string): Promise<Field[]> => (await customer.get(`/fields/${object}`)).body as Field[];

const bodies = {
  // With a phone number: the address may go only if something else identifies the person.
  contacts: [
    '/contacts',
    async () => contactBody({ phone_numbers: [{ country_code: '+44', number: '20 7946 0000' }] }),
  ],
  company: ['/company', async () => companyBody()],
  products: ['/products', async () => productBody()],
  opportunities: ['/opportunities', () => opportunityBody(customer)],
} as const;

test.each(Object.keys(bodies) as (keyof typeof bodies)[])(
  '%s: what a field says is what calls do with it',
  async (object) => {
    const [path, body] = bodies[object];
    const given: Record<string, unknown> = await body();
    const id = await make(customer, path, given);
    const record = (await customer.get(`${path}/${id}`)).body;
    const fields = await fieldsOf(object);
    expect(fields.map(({ name }) => name)).toEqual(Object.keys(record).filter((name) => name !== 'custom_fields'));
    for (const { name, required, writable, nullable, filterable, sortable, max_length } of fields) {
      const { [name]: _left, ...without } = given;
      const created = await customer.post(path, without);
      expect(created.status === 400, `${name} required`).toBe(required);
      const cleared = await customer.patch(`${path}/${id}`, { [name]: null });
      expect(cleared.status, `${name} nullable`).toBe(nullable ? 200 : 400);
      const { errors } = (await customer.patch(`${path}/${id}`, { [name]: { no: 'value' } })).body;
      const isUnknown = errors[0].path === `/${name}` && errors[0].message.startsWith('is not known here');
      expect(!isUnknown, `${name} writable`).toBe(writable);
      const long = { [name]: 'x'.repeat((max_length ?? 0) + 1) };
      const cut = writable && max_length !== undefined ? await customer.patch(`${path}/${id}`, long) : { status: 400 };
      expect(cut.status, `${name} max_length`).toBe(400);
      if (object === 'products' || object === 'opportunities') continue;
      const filtered = await customer.post(`${path}/list`, { filters: { [name]: null } });
      expect(filtered.status, `${name} filterable`).toBe(filterable ? 200 : 400);
      const sorted = await customer.post(`${path}/list`, { order_by: { [name]: 'ASC' } });
      expect(sorted.status, `${name} sortable`).toBe(sortable ? 200 : 400);
    }
  },
);

test('types, references and choices are those of the values', async () => {
  const contacts = await fieldsOf('contacts');
  const find = (name: string) => contacts.find((field) => field.name === name);
  expect(find('work_email')).toMatchObject({ label: 'Work e-mail', type: 'email', required: true, max_length: 254 });
  expect(find('birth_year')).toMatchObject({ type: 'integer' });
  expect(find('location_country')).toMatchObject({ type: 'country' });
  expect(find('company')).toMatchObject({ type: 'reference', references: 'company' });
  expect(find('list_ids')).toMatchObject({ type: 'list', references: 'lists' });
  expect(find('phone_numbers')).toMatchObject({ type: 'list' });
  expect(find('created_at')).toMatchObject({ type: 'datetime', writable: false });
  const opportunities = await fieldsOf('opportunities');
  expect(opportunities).toContainEqual(
    expect.objectContaining({
      name: 'priority',
      type: 'choice',
      choices: ['URGENT', 'HIGHT', 'MEDIUM', 'LOW', 'NONE'],
    }),
  );
  expect(opportunities).toContainEqual(
    expect.objectContaining({ name: 'contacts_ids', type: 'list', references: 'contacts' }),
  );
  expect(await fieldsOf('products')).toContainEqual(expect.objectContaining({ name: 'currency', type: 'currency' }));
  expect(await fieldsOf('prospect')).toContainEqual(
    expect.objectContaining({ name: '_id', label: 'Id', writable: false, required: false }),
  );
});

test('custom fields are those that records have, with the type of all their values', async () => {
  const own = await app.customer();
  await make(own, '/contacts', contactBody({ custom_fields: { plan: 'gold', seats: 3, mixed: 1, vip: true } }));
  await make(own, '/contacts', contactBody({ custom_fields: { seats: 4.5, mixed: 'many' } }));
  const fields = (await own.get('/fields/contacts')).body as Field[];
  expect(fields.filter(({ custom }) => custom).map(({ name, type }) => [name, type])).toEqual([
    ['custom_fields.mixed', 'text'],
    ['custom_fields.plan', 'text'],
    ['custom_fields.seats', 'number'],
    ['custom_fields.vip', 'boolean'],
  ]);
});

test('of an object that a key may not read, or that is none, nothing is told', async () => {
  const reader = await customer.withScopes(['products:read']);
  expect((await reader.get('/fields/products')).status).toBe(200);
  expect((await reader.get('/fields/contacts')).status).toBe(403);
  expect((await reader.get('/fields/activities')).status).toBe(404);
});
