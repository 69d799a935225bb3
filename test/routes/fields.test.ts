import { expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, make, opportunityBody, recordKinds } from '../setup/factories.ts';
import type { TestCustomer } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

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

/** Members beside which any other one may go. */
const beside: Record<string, object> = {
  '/contacts': { phone_numbers: [{ country_code: '+44', number: '20 7946 0000' }] },
  '/activities': { title: 'Title' },
};

test.each(recordKinds)('what a field of $path says is what calls do with it', async ({ path, bodyOf }) => {
  const object = path.slice(1);
  const given = await bodyOf(customer, beside[path]);
  if (object === 'activities')
    given['opportunity_id'] = await make(customer, '/opportunities', await opportunityBody(customer));
  const id = await make(customer, path, given);
  const record = (await customer.get(`${path}/${id}`)).body;
  const fields = await fieldsOf(object);
  expect(fields.map(({ name }) => name)).toEqual(
    Object.keys(record).filter((name) => name !== 'custom_fields' && name !== 'created_by'),
  );
  for (const { name, required, writable, nullable, filterable, sortable, max_length } of fields) {
    const { [name]: _left, ...without } = given;
    const created = await customer.post(path, without);
    expect(created.status === 400, `${name} required`).toBe(required);
    const cleared = await customer.patch(`${path}/${id}`, { [name]: null });
    expect(cleared.status, `${name} nullable`).toBe(nullable ? 200 : 400);
    const shown = (await customer.get(`${path}/${id}`)).body[name];
    const isNothing = [null, '', undefined].includes(shown?.id === null ? null : shown);
    expect(isNothing || !nullable, `${name} is cleared`).toBe(true);
    if (object === 'activities') await customer.patch(`${path}/${id}`, given); // not all may be null at once
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
});

test('types, references and choices are those of the values', async () => {
  for (const [object, field] of [
    ['contacts', { name: 'work_email', label: 'Work e-mail', type: 'email', required: true, max_length: 254 }],
    ['contacts', { name: 'company', type: 'reference', references: 'company' }],
    ['contacts', { name: 'list_ids', type: 'list', references: 'lists' }],
    ['contacts', { name: 'created_at', type: 'datetime', writable: false }],
    ['opportunities', { name: 'priority', type: 'choice', choices: ['URGENT', 'HIGHT', 'MEDIUM', 'LOW', 'NONE'] }],
    ['opportunities', { name: 'contacts_ids', type: 'list', references: 'contacts' }],
    ['prospect', { name: '_id', label: 'Id', writable: false, required: false }],
  ] as const)
    expect(await fieldsOf(object)).toContainEqual(expect.objectContaining(field));
});

test('custom fields are those that records have, with the type of all their values', async () => {
  await make(customer, '/contacts', contactBody({ custom_fields: { plan: 'gold', seats: 3, mixed: 1, vip: true } }));
  await make(customer, '/contacts', contactBody({ custom_fields: { seats: 4.5, mixed: 'many' } }));
  const fields = (await customer.get('/fields/contacts')).body as Field[];
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
  expect((await reader.get('/fields/letters')).status).toBe(404);
});

const declare = (who: TestCustomer, path: string, body: object) => who.call('PUT', `/fields/${path}`, body);
const plan = { label: 'Plan', type: 'choice', choices: ['silver', 'gold'] };

/** Makes a customer with a field of each type. */
async function declared(): Promise<void> {
  const types = { text: 'text', notes: 'long_text', seats: 'number', vip: 'boolean', since: 'date', site: 'url' };
  for (const path of ['contacts', 'company']) {
    for (const [key, type] of Object.entries(types))
      expect((await declare(customer, `${path}/${key}`, { type })).status).toBe(200);
    expect((await declare(customer, `${path}/plan`, plan)).status).toBe(200);
  }
}

const good = { text: '7', notes: 'a\nb', seats: 7.5, vip: false, since: '2024-02-29', site: 'https://example.com/a' };
/** By key: values that are not of its type, and what the message says. */
const bad: Record<string, [values: unknown[], message: string]> = {
  text: [[7, true], 'is not a text (such as "12")'],
  notes: [[7], 'is not a text (such as "12")'],
  seats: [['7', false], 'is not a number (such as 12.5)'],
  vip: [['true', 0], 'is neither true nor false'],
  since: [['2023-02-29', '2024-02-29T00:00:00Z', '', 20240229], 'is not a date (such as 2026-12-31)'],
  site: [
    ['example.com', 'javascript:alert(1)', 'https://', 'https://a b'],
    'is not a web address (such as https://example.com)',
  ],
  plan: [['Gold', '', 1], 'is not one of its choices: silver, gold'],
};

test.each([
  ['contacts', () => contactBody()],
  ['company', () => companyBody()],
] as const)(
  '%s: a value that is not of the declared type is refused by every call that writes it',
  async (path, bodyOf) => {
    await declared();
    const custom_fields = { ...good, plan: 'gold', other: 1 };
    const id = await make(customer, `/${path}`, { ...bodyOf(), external_id: 'x', custom_fields });
    for (const [key, [values, message]] of Object.entries(bad))
      for (const value of values) {
        const wrong = { custom_fields: { [key]: value } };
        const fault = { path: `/custom_fields/${key}`, message };
        const refused = { status: 400, body: { code: 'validation_failed', errors: [fault] } };
        expect(await customer.post(`/${path}`, { ...bodyOf(), ...wrong })).toMatchObject(refused);
        expect(await customer.patch(`/${path}/${id}`, wrong)).toMatchObject(refused);
        const items = [
          { external_id: 'x', ...wrong },
          { ...bodyOf(), external_id: 'y', ...wrong },
        ];
        const { body } = await customer.post(`/${path}/batch/upsert`, { match: 'external_id', items });
        const failed = { status: 'failed', error: { code: 'validation_failed', errors: [fault] } };
        expect(body.data.results).toMatchObject([failed, failed]);
      }
    expect((await customer.get(`/${path}/${id}`)).body.custom_fields).toEqual(custom_fields);
    const nothing = Object.fromEntries(Object.keys(custom_fields).map((key) => [key, null]));
    expect((await customer.patch(`/${path}/${id}`, { custom_fields: nothing })).status).toBe(200);
    const bare = await make(customer, `/${path}`, { ...bodyOf(), custom_fields: nothing });
    expect((await customer.get(`/${path}/${bare}`)).body.custom_fields).toEqual({});
  },
);

test('what is stored stays after a declaration until it is written', async () => {
  const id = await make(customer, '/contacts', contactBody({ custom_fields: { seats: 'many', plan: 'gold' } }));
  await declare(customer, 'contacts/seats', { type: 'number' });
  expect((await customer.patch(`/contacts/${id}`, { job_title: 'Boss', custom_fields: { plan: 'lead' } })).status).toBe(
    200,
  );
  const { body } = await customer.post('/contacts/batch/update', { items: [{ id, job_title: 'Clerk' }] });
  expect(body.data.counts).toMatchObject({ updated: 1, failed: 0 });
  expect((await customer.get(`/contacts/${id}`)).body.custom_fields).toEqual({ seats: 'many', plan: 'lead' });
  expect((await customer.patch(`/contacts/${id}`, { custom_fields: { seats: 'many' } })).status).toBe(400);
});

test('declarations are listed after the built-in fields, with label and choices, then what records have', async () => {
  await make(customer, '/contacts', contactBody({ custom_fields: { plan: 'gold', age: 3 } }));
  const sent = await declare(customer, 'contacts/plan', plan);
  const shown = expect.objectContaining({ name: 'custom_fields.plan', ...plan, custom: true });
  expect(sent.body).toEqual({ success: true, message: 'Field declared', data: shown });
  await declare(customer, 'contacts/a%2Fb%20%C3%BC', { type: 'date' });
  const custom = async () => ((await customer.get('/fields/contacts')).body as Field[]).filter((field) => field.custom);
  const slashed = expect.objectContaining({ name: 'custom_fields.a/b ü', label: 'a/b ü', type: 'date' });
  const age = expect.objectContaining({ name: 'custom_fields.age', type: 'number' });
  expect(await custom()).toEqual([slashed, shown, age]);
  expect(((await customer.get('/fields/company')).body as Field[]).some((field) => field.custom)).toBe(false);
  expect((await customer.delete('/fields/contacts/a%2Fb%20%C3%BC')).status).toBe(200);
  expect((await customer.delete('/fields/contacts/plan')).status).toBe(200);
  expect((await customer.delete('/fields/contacts/plan')).status).toBe(404);
  expect(await custom()).toEqual([age, expect.objectContaining({ name: 'custom_fields.plan', type: 'text' })]);
  await make(customer, '/contacts', contactBody({ custom_fields: { plan: 7 } }));
});

test('a declaration that says nothing new changes nothing, and each other one is in the audit log', async () => {
  for (const body of [plan, plan, { type: 'text' }]) await declare(customer, 'company/plan', body);
  await customer.delete('/fields/company/plan');
  const actor = `key ${customer.keyId}`;
  expect(
    await app.owner`select event, actor, details from audit_events where customer_id = ${customer.id} and event like 'field.%' order by id`,
  ).toEqual([
    { event: 'field.declared', actor, details: { object: 'companies', key: 'plan', type: 'choice' } },
    { event: 'field.declared', actor, details: { object: 'companies', key: 'plan', type: 'text' } },
    { event: 'field.removed', actor, details: { object: 'companies', key: 'plan' } },
  ]);
});

test.each([
  ['without choices', 'plan', { type: 'choice' }, '/choices'],
  ['without a choice', 'plan', { type: 'choice', choices: [] }, '/choices'],
  ['with a choice twice', 'plan', { type: 'choice', choices: ['a', 'a'] }, '/choices'],
  ['with an empty choice', 'plan', { type: 'choice', choices: [''] }, '/choices/0'],
  ['with a choice of blanks', 'plan', { type: 'choice', choices: ['  '] }, '/choices/0'],
  ['with a choice that ends with a blank', 'plan', { type: 'choice', choices: ['a', 'b '] }, '/choices/1'],
  ['with the key __proto__', '__proto__', { type: 'text' }, '/key'],
  ['with choices for a text', 'plan', { type: 'text', choices: ['a'] }, '/choices'],
  ['of no type', 'plan', { type: 'colour' }, '/type'],
  ['with a label that is too long', 'plan', { type: 'text', label: 'x'.repeat(121) }, '/label'],
  ['with a key that is too long', 'x'.repeat(65), { type: 'text' }, '/key'],
  ['with a key that PostgreSQL cannot store', 'a%00b', { type: 'text' }, '/key'],
])('a declaration %s is refused', async (_, key, body, path) => {
  expect(await declare(customer, `contacts/${key}`, body)).toMatchObject({
    status: 400,
    body: { errors: [{ path }] },
  });
});

test('of one object, 200 fields can be declared, and one more is 409', async () => {
  await app.owner`
      insert into declared_fields (customer_id, object, key, label, type)
      select ${customer.id}, 'contacts', 'k' || n, 'K', 'text' from generate_series(1, 200) n`;
  expect((await declare(customer, 'contacts/more', plan)).status).toBe(409);
  expect((await declare(customer, 'contacts/k1', plan)).status).toBe(200);
  expect((await declare(customer, 'company/more', plan)).status).toBe(200);
});

test('a declaration is of one customer alone', async () => {
  await declared();
  const other = await app.customer();
  await make(other, '/contacts', contactBody({ custom_fields: { seats: 'many' } }));
  expect((await customer.post('/contacts', contactBody({ custom_fields: { seats: 'many' } }))).status).toBe(400);
});
