import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make } from '../setup/factories.ts';
import { readSheet } from '../setup/xlsx.ts';
import { adminOfEachTest, expectPage, textOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const declare = (key: string, body: object) => customer.call('PUT', `/fields/contacts/${key}`, body);
const customOf = async (id: string) => (await customer.get(`/contacts/${id}`)).body.custom_fields;

const declared = async () =>
  (await customer.get('/fields/contacts')).body
    .filter(({ custom }: { custom: boolean }) => custom)
    .map(({ name, label, type, choices }: Record<string, unknown>) => ({ name, label, type, choices }));

test('the page of fields declares, changes and removes a field', async () => {
  const sent = { key: 'a-b', label: 'Plan', type: 'choice', choices: 'silver\r\n gold \r\n\r\ngold' };
  const made = await admin.submit('/app/fields/contacts/new', sent);
  expect([made.status, textOf(made)]).toEqual([303, '']);
  const shown = { name: 'custom_fields.a-b', label: 'Plan', type: 'choice', choices: ['silver', 'gold'] };
  expect(await declared()).toEqual([shown]);
  expect(textOf(await admin.get('/app/fields'))).toContain('Plan Choice: silver, gold a-b Change · Remove the type');
  const edit = '/app/fields/contacts/a-b/edit';
  expect((await admin.submit(edit, { label: 'Tariff', choices: 'bronze' })).status).toBe(303);
  expect(await declared()).toEqual([{ ...shown, label: 'Tariff', choices: ['bronze'] }]);
  expect(textOf(await admin.get(`${edit}?found=other`))).toContain('Key: a-b');
  const remove = '/app/fields/contacts/a-b/remove';
  expect(textOf(await admin.get(remove))).toContain('The values of Tariff stay in the contacts, under the key a-b');
  expect((await admin.submit(remove)).status).toBe(303);
  expect(await declared()).toEqual([]);
  expect((await admin.get(edit)).status).toBe(404);
});

test.each(['.', '..'])(
  'the page of fields declares no field with the key %s, whose pages no browser could open',
  async (key) => {
    const refused = await admin.submit('/app/fields/contacts/new', { key, label: 'Odd', type: 'text' });
    expectPage(refused, 400, 'Use letters, digits and _ only');
    expect(await declared()).toEqual([]);
  },
);

test('all that is wrong with a new field is marked at once', async () => {
  const refused = await admin.submit('/app/fields/contacts/new', {
    label: '',
    key: 'Bad Key!',
    type: 'choice',
    choices: '',
  });
  expectPage(refused, 400, /Give a name\..*Write at least one choice\..*Use letters, digits and _ only/);
  // No object can have this member.
  const unstorable = { label: 'Proto', key: '__proto__', type: 'text' };
  expectPage(await admin.submit('/app/fields/contacts/new', unstorable), 400, 'Use letters, digits and _ only');
});

test('a field without a key gets one from its name, which no other field has', async () => {
  const sent = { label: ' Größe & Farbe (2) ', type: 'text' };
  expect((await admin.submit('/app/fields/contacts/new', sent)).status).toBe(303);
  expect(await declared()).toMatchObject([{ name: 'custom_fields.grosse_farbe_2', label: 'Größe & Farbe (2)' }]);
  expectPage(await admin.submit('/app/fields/contacts/new', sent), 400, '“Größe & Farbe (2)” is a field already');
  expectPage(
    await admin.submit('/app/fields/contacts/new', { ...sent, label: 'Größe, Farbe, 2' }),
    400,
    '“Größe & Farbe (2)” is a field already',
  );
});

test('a field has neither the name nor the key of a built-in one, nor the name of another', async () => {
  const refused = async (sent: object, message: string, page = '/app/fields/contacts/new') =>
    expectPage(await admin.submit(page, { type: 'text', ...sent }), 400, message);
  await refused({ key: 'work_email', label: 'Mail' }, 'The field “Work e-mail” has this key');
  await refused({ key: 'mail', label: 'work E-Mail' }, '“Work e-mail” is a field already: use that one');
  await declare('plan', { type: 'text', label: 'Tariff' });
  await declare('twin', { type: 'text', label: 'Tariff' });
  await refused({ label: ' TARIFF' }, '“Tariff” is a field already');
  await declare('other', { type: 'text' });
  await refused({ label: 'Tariff' }, '“Tariff” is a field already', '/app/fields/contacts/other/edit');
  const kept = await admin.submit('/app/fields/contacts/twin/edit', { type: 'number' });
  expect([kept.status, textOf(kept)]).toEqual([303, '']);
  expect((await admin.submit('/app/fields/companies/new', { label: 'Tariff', type: 'text' })).status).toBe(303);
});

test('the page of fields names the built-in fields, and gives no type to a field whose key is too long', async () => {
  const page = await admin.get('/app/fields');
  expect(textOf(page)).toContain('Built-in fields: 23 Your own id, First name');
  expect(page.body).not.toMatch(/<th[^>]*>\s*<\/th>/);
  const refused = await admin.submit(`/app/fields/contacts/new?found=${'k'.repeat(65)}`, { label: 'Long' });
  expectPage(refused, 400, 'A field with this key can have no type');
});

test('a key that is made from a name of whole characters has whole characters', async () => {
  const label = `${'a'.repeat(63)}𐐀b`;
  expect((await admin.submit('/app/fields/contacts/new', { label, type: 'text' })).status).toBe(303);
});

test('the page of fields offers a type for a field that records have', async () => {
  await make(customer, '/contacts', contactBody({ custom_fields: { 'Rank & file ': 'x' } }));
  const { body } = await admin.get('/app/fields');
  expect(textOf({ body })).toContain('rules, too. Rank & file Set it up');
  const link = /href="([^"]+new\?found[^"]+)"/.exec(body)![1]!.replaceAll('&#61;', '=');
  expectPage(await admin.submit(link, { label: '', type: 'choice' }), 400, 'Key: Rank & file');
  expect((await admin.get(link)).body).not.toContain('<input type="text" id="key"');
  expect((await admin.submit(link, { type: 'text' })).status).toBe(303);
  expect(await declared()).toMatchObject([{ name: 'custom_fields.Rank & file ', label: 'Rank & file', type: 'text' }]);
});

const all = {
  text: { type: 'text', label: 'Nickname' },
  notes: { type: 'long_text' },
  seats: { type: 'number' },
  vip: { type: 'boolean' },
  since: { type: 'date' },
  site: { type: 'url' },
  plan: { type: 'choice', choices: ['silver', 'gold'] },
};
const declareAll = async () => {
  for (const [key, body] of Object.entries(all)) expect((await declare(key, body)).status).toBe(200);
};
const controlOf = (html: string, key: string): string =>
  [...html.matchAll(/<(?:input|select|textarea)\s[^>]*>/g)]
    .map(([tag]) => tag)
    .find((tag) => tag.includes(`id="custom.${key}"`))!;

test('the form of a record has a control of its type for each declared field, and writes what it says', async () => {
  await declareAll();
  const { body } = await admin.get('/app/contacts/new');
  expect(body).toContain('<label for="custom.text">Nickname</label>');
  for (const [key, pattern] of Object.entries({
    text: /<input type="text"/,
    notes: /<textarea/,
    seats: /<input type="text".* inputmode="decimal"/,
    vip: /<input\s+type="checkbox"/,
    since: /<input type="date"/,
    site: /<input type="text".* inputmode="url"/,
    plan: /<select/,
  }))
    expect(controlOf(body, key), key).toMatch(pattern);
  const values = {
    text: 'Countess',
    notes: 'a\r\nb',
    seats: '-1.234,5',
    since: '2024-02-29',
    site: 'example.com/about',
  };
  const sent = Object.fromEntries(Object.entries(values).map(([key, value]) => [`custom.${key}`, value]));
  const made = await admin.submit('/app/contacts/new', {
    last_name: 'Lovelace',
    work_email: 'ada@example.com',
    ...sent,
    'custom.vip': ['', 'true'],
    'custom.plan': 'gold',
  });
  expect([made.status, textOf(made)]).toEqual([303, '']);
  const path = made.location!.split('?')[0]!;
  const id = path.split('/').at(-1)!;
  const expected = {
    ...values,
    notes: 'a\nb',
    seats: -1234.5,
    vip: true,
    plan: 'gold',
    site: 'https://example.com/about',
  };
  expect(await customOf(id)).toEqual(expected);
  expect(textOf(await admin.get(path))).toMatch(/vip yes .*Nickname Countess|Nickname Countess .*vip yes/);
  const unticked = await admin.submit(`${path}/edit`, { 'custom.vip': '', 'custom.plan': '', 'custom.seats': '' });
  expect([unticked.status, textOf(unticked)]).toEqual([303, '']);
  const { plan: _plan, seats: _seats, ...others } = expected;
  expect(await customOf(id)).toEqual({ ...others, vip: false });
});

test('the form of a record keeps a code that was a number, and refuses one where a number is declared', async () => {
  await declare('seats', { type: 'number' });
  const made = await customer.post('/contacts', contactBody({ custom_fields: { no: 7, seats: 1 } }));
  const path = `/app/contacts/${made.body.data.id}`;
  for (const no of ['00123', 'SKU 1234', '12 PCS', '12345678901234567890']) {
    expect((await admin.submit(`${path}/edit`, { 'custom.no': no })).status).toBe(303);
    expect(await customOf(made.body.data.id)).toEqual({ no, seats: 1 });
  }
  expect((await admin.submit(`${path}/edit`, { 'custom.seats': 'SKU 12' })).status).toBe(400);
});

test('the form of a record changes nothing that it was not asked to, also of values that are not of the type', async () => {
  const custom_fields = {
    notes: 7,
    seats: 'many',
    vip: 'perhaps',
    since: 'soon',
    site: 'none',
    plan: 'bronze',
    x: 'y',
  };
  const id = await make(customer, '/contacts', contactBody({ custom_fields }));
  await declareAll();
  const { body } = await admin.get(`/app/contacts/${id}/edit`);
  for (const key of ['seats', 'vip', 'since', 'site']) expect(controlOf(body, key), key).toContain('type="text"');
  const saved = await admin.submit(`/app/contacts/${id}/edit`, { job_title: 'Boss' });
  expect([saved.status, textOf(saved)]).toEqual([303, '']);
  expect(await customOf(id)).toEqual(custom_fields);
  const empty = await make(customer, '/contacts', contactBody());
  await admin.submit(`/app/contacts/${empty}/edit`, { job_title: 'Boss' });
  expect(await customOf(empty)).toEqual({});
});

test('a list has a column for each declared field, for those who choose it', async () => {
  await make(customer, '/contacts', contactBody({ custom_fields: { 'my.plan': 'gold' } }));
  await declare('my.plan', { label: 'Tariff', type: 'text' });
  const { body } = await admin.get('/app/contacts');
  expect(body).not.toMatch(/<th[^>]*>Tariff/);
  const column = /name="columns" value="([^"]+)"[^>]*>\s*Tariff/.exec(body)![1]!;
  const shown = await admin.get(`/app/contacts?columns=${encodeURIComponent(column)}&columns=name`);
  expect(shown.body).toMatch(/Tariff/);
  expect(textOf(shown)).toMatch(/Tariff Ada Lovelace gold/);
});

test('a sheet for people has the labels of declared fields as headers, where they are no other column', async () => {
  const custom_fields = { plan: 'gold', size: 7, other: 1 };
  await make(customer, '/contacts', contactBody({ custom_fields }));
  await declare('plan', { label: 'Tariff', type: 'text' });
  await declare('size', { label: 'Last name', type: 'number' });
  const { headers, records } = await readSheet((await customer.post('/contacts/export', { format: 'xlsx' })).body);
  expect(headers).toEqual(expect.arrayContaining(['Tariff', 'size', 'other', 'Last name']));
  expect(records).toMatchObject([{ Tariff: 'gold', size: 7, other: 1 }]);
});
