import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make, opportunityBody, productBody } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, filledFields, textOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const description = 'one\r\ntwo'; // as browsers send line breaks
const stages = {
  stage_name: ['Offer'],
  stage_probability_percentage: ['40'],
  stage_status: ['OPEN'],
  stage_id: [''],
};

/** Forms of new records: where, what is filled in, and what is stored of it. */
const made = [
  ['contacts', { last_name: 'Lovelace', work_email: 'ada@example.com' }, { last_name: 'Lovelace' }],
  ['companies', { company_name: 'Navy', type: 'customer' }, { company_name: 'Navy' }],
  ['lists', { name: 'Twice', description, do: 'save' }, { name: 'Twice', description: 'one\ntwo' }],
  ['opportunities', { name: 'Twice', description }, { name: 'Twice', description: 'one\ntwo' }],
  ['products', { name: 'Chair', price: '5' }, { name: 'Chair', price: 5 }],
  ['pipelines', { name: 'Partners', currency: 'EUR', ...stages }, { name: 'Partners' }],
] as const;

const stored: Record<string, () => Promise<{ body: object[] }>> = {
  contacts: () => customer.post('/contacts/list', {}),
  companies: () => customer.post('/company/list', {}),
  lists: () => customer.post('/list-contact/list', {}),
  opportunities: () => customer.post('/opportunities/list', {}),
  products: () => customer.post('/products/list', {}),
  pipelines: () => customer.get('/pipelines'),
};

test.each(made)(
  'a form of new %s makes one, however often and at once it is sent',
  async (section, fields, expected) => {
    const before = (await stored[section]!()).body.length;
    const path = `/app/${section}/new`;
    const sent = { ...(await admin.fieldsOf(path)), ...(fields as Record<string, string>) };
    const answers = await Promise.all([1, 2, 3].map(() => admin.post(path, sent)));
    answers.push(await admin.post(path, sent));
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303, 303]);
    const { body } = await stored[section]!();
    expect(body).toHaveLength(before + 1);
    expect(body[0]).toMatchObject(expected);
  },
);

test('a form that was sent before, and then with other values, is refused, and keeps them', async () => {
  const path = '/app/products/new';
  const sent = { ...(await admin.fieldsOf(path)), name: 'Chair', price: '5' };
  expect((await admin.post(path, sent)).status).toBe(303);
  const other = await admin.post(path, { ...sent, name: 'Table' });
  expectPage(other, 409, 'sent before, with other values');
  expect(other.body).toContain('value="Table"');
  expect(textOf(await admin.get('/app/contacts?done=sent'))).toContain('This form was sent before');

  const contact = `/app/contacts/${await make(customer, '/contacts', contactBody())}`;
  const note = { ...(await admin.fieldsOf(contact)), type: 'note', body: 'Called' };
  expect((await admin.post(contact, note)).status).toBe(303);
  expectPage(
    await admin.post(contact, { ...note, body: 'Called back' }),
    409,
    /sent before, with other .* Called back/,
  );
});

test.each([
  ['a contact', '/contacts', async () => `contacts/${await make(customer, '/contacts', contactBody())}`],
  ['a list', '/list-contact', async () => `lists/${(await customer.post('/list-contact', { name: 'Old' })).body.id}`],
])('%s that somebody changed after the question is not deleted, and asked about again', async (_, api, make) => {
  const path = await make();
  const id = path.split('/')[1]!;
  const question = await admin.fieldsOf(`/app/${path}/delete`);
  await customer.patch(`${api}/${id}`, api === '/contacts' ? { job_title: 'Countess' } : { name: 'New' });
  const refused = await admin.post(`/app/${path}/delete`, question);
  expectPage(refused, 412, 'Somebody changed this');
  expect((await customer.get(`${api}/${id}`)).status).toBe(200);
  expect((await admin.post(`/app/${path}/delete`, filledFields(refused.body, `/app/${path}/delete`))).status).toBe(303);
  expect((await customer.get(`${api}/${id}`)).status).toBe(404);
});

test('a form with faults shows what somebody has changed meanwhile, and does not overwrite it unseen', async () => {
  const id = await make(customer, '/contacts', contactBody({ job_title: 'Analyst' }));
  const path = `/app/contacts/${id}/edit`;
  const opened = await admin.fieldsOf(path);
  await customer.patch(`/contacts/${id}`, { job_title: 'Countess' });
  const refused = await admin.post(path, { ...opened, work_email: 'none', phone_numbers: 'abc\ndef' });
  const both = /Somebody changed this .*Must be an e-mail .*“abc” is not .*“def” is not .*Stored now: Countess/;
  expectPage(refused, 400, both);
  const again = { ...filledFields(refused.body, path), work_email: 'ada@x.example' };
  expect((await admin.post(path, again)).status).toBe(303);
});

test('an opportunity cannot be given to an unknown user, and says so with its other faults', async () => {
  const elsewhere = crypto.randomUUID();
  const id = await make(customer, '/opportunities', await opportunityBody(customer));
  const path = `/app/opportunities/${id}/edit`;
  const refused = await admin.submit(path, { name: '', user_id_assigned: elsewhere });
  expectPage(refused, 400, /Must not be empty.*Choose a colleague/);
});

type Fields = Record<string, string | string[]>;

/** Forms with a fault: what is typed, what is said beside it, and what of the rest is still there. */
const wrong: [path: string, fields: Fields, says: string | RegExp, kept?: RegExp][] = [
  ['contacts/new', { first_name: 'Grace', work_email: 'none' }, 'Must be an e-mail address', /value="Grace"/],
  ['contacts/new', { gender: 'f' }, /Give one of these: first name.*Give one of these: work e-mail, .*phone/],
  [
    'contacts/new',
    { birth_year: '20', mobile_phone: '12345678901234567890123', profnet_url: 'not a url', 'custom.seats': 'many' },
    /(?=.*Give one of these)(?=.*Is not a year of birth \(such as 1985\))(?=.*“12345678901234567890123” is not a phone number)(?=.*Is not a web address)(?=.*Is not a number)/,
  ],
  ['contacts/new', { last_name: 'L', work_email: 'a@x.example', 'custom.seats': 'many' }, 'Is not a number (such as'],
  ['products/new', { price: '5' }, /Name \* Is missing/, /value="5"/],
  ['keys/new', { name: ' ', expiration: '31', preset: 'own' }, /1 to 120 characters.*one of the choices.*at least one/],
  ['keys/new', { name: 'a\0', permissions: ['contacts:read'], preset: 'own' }, '', /contacts:read"\s+checked/],
  ['keys/new', { name: 'a', expiration: '30', permissions: 'root', preset: 'own' }, ''],
  [
    'webhooks/new',
    { url: 'https://8.8.8.8/', types: ['contact.created'] },
    'Must have a public address.',
    /value="contact.created"\s+checked/,
  ],
  ['fields/contacts/new', { key: '', type: 'text', label: '–' }, 'Use letters, digits and _ only', /value="–"/],
  ['fields/contacts/new', { key: 'seats', type: 'text', label: 'Chairs' }, 'The field “seats” has this key.'],
  ['fields/contacts/new', { key: 'size', type: 'choice', label: 'Size' }, 'Write at least one choice.'],
];

test.each(wrong)(
  'the form of %s with %j is refused, says why, keeps what was typed, and changes nothing',
  async (page, fields, says, kept) => {
    await customer.call('PUT', '/fields/contacts/seats', { type: 'number' });
    const tables = ['contacts', 'products', 'api_keys', 'webhook_endpoints', 'declared_fields'];
    const count = () =>
      Promise.all(tables.map((table) => app.owner`select from ${app.owner(table)} where customer_id = ${customer.id}`));
    const before = (await count()).map((rows) => rows.count);
    const refused = await admin.submit(`/app/${page}`, fields);
    expectPage(refused, 400, says);
    expect(refused.body).toMatch(/id="[\w.]+-fault">/);
    expect(refused.body).toMatch(kept ?? /./);
    expect((await count()).map((rows) => rows.count)).toEqual(before);
  },
);

const url = 'https://receiver.example.com/hook';

/** Forms of stored records: how one is made, and what two people change in it. */
const changed: [noun: string, make: () => Promise<string>, theirs: Fields, mine: Fields, says?: string][] = [
  [
    'a contact',
    async () => `contacts/${await make(customer, '/contacts', contactBody())}/edit`,
    { job_title: 'Analyst <1>' },
    { first_name: 'Augusta' },
    'Stored now: Analyst <1>',
  ],
  [
    'an activity',
    async () => {
      const contact_id = await make(customer, '/contacts', contactBody());
      return `activities/${await make(customer, '/activities', { type: 'task', title: 'Call', contact_id })}/edit`;
    },
    { type: 'task', due_at: '2026-03-31' },
    { type: 'task', title: 'Mine' },
    'Stored now: 2026-03-31',
  ],
  [
    'a product',
    async () => `products/${await make(customer, '/products', productBody())}/edit`,
    { price: '12' },
    { name: 'Mine' },
    'Stored now: 12',
  ],
  [
    'an opportunity',
    async () => `opportunities/${await make(customer, '/opportunities', await opportunityBody(customer))}/edit`,
    { priority: 'HIGHT' },
    { name: 'Mine' },
    'Stored now: high',
  ],
  [
    'a list',
    async () => `lists/${(await customer.post('/list-contact', { name: 'Old' })).body.id}/edit`,
    { field: 'job_title', operator: 'contains', value: 'Countess', join: 'AND' },
    { name: 'Mine', field: 'job_title', operator: 'contains', value: 'Duchess', join: 'AND' },
    'Stored now: Job title contains Countess',
  ],
  [
    'a pipeline',
    async () => `pipelines/${(await customer.get('/pipelines')).body[0].id}/edit`,
    { visibility: 'PRIVATE' },
    { name: 'Mine' },
    'Stored now: admins only',
  ],
  [
    'a field',
    async () => {
      await customer.call('PUT', '/fields/contacts/plan', { type: 'text' });
      return 'fields/contacts/plan/edit';
    },
    { label: 'Theirs', type: 'text' },
    { label: 'Mine', type: 'text' },
    'Stored now: Theirs',
  ],
  [
    'an endpoint',
    async () => {
      const { body } = await admin.submit('/app/webhooks/new', { url, types: ['contact.created'] });
      return `${/webhooks\/[0-9a-f-]{36}/.exec(body)![0]}/edit`;
    },
    { url, description: 'Theirs', types: ['list.created'] },
    { url: `${url}/mine`, types: ['contact.created'] },
  ],
  [
    'the caps of a key',
    async () => `keys/${customer.keyId}/caps`,
    { cap_subscription: '5' },
    { cap_verification: '1500' },
  ],
];

test.each(changed)(
  'of two who change %s, the second is refused, sees both versions, and can save',
  async (_, make, theirs, mine, says) => {
    const path = `/app/${await make()}`;
    const opened = await admin.fieldsOf(path);
    expect((await admin.submit(path, theirs)).status).toBe(303);
    const refused = await admin.post(path, { ...opened, ...mine });
    expectPage(refused, 412, 'Somebody changed this');
    expect(textOf(refused)).toContain(says ?? '');
    const [name, typed] = Object.entries(mine).at(0)!;
    expect(refused.body).toContain(`value="${typed as string}"`);
    const { form_token: _token, etag: _etag, ...texts } = await admin.fieldsOf(path);
    expect(texts[name]).toBe(opened[name] === undefined ? undefined : ((theirs[name] as string) ?? opened[name]));
    expect((await admin.post(path, { ...filledFields(refused.body, path), ...mine })).status).toBe(303);
  },
);
