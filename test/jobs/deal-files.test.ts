import { beforeEach, expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, make } from '../setup/factories.ts';
import { countsOf, errorsOf, importFile, sendBytes, workAtAll } from './importing.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

const app = await startApp();
let userId: string;

const customer = customerOfEachTest(app);
beforeEach(async () => {
  [{ id: userId }] = (await customer.get('/customer/users')).body;
  await make(customer, '/company', companyBody({ external_id: 'c-1' }));
  for (const external_id of ['p-1', 'p-2']) await make(customer, '/contacts', contactBody({ external_id }));
});

// One price has two meanings to people.
const products =
  'external_id,name,price,unit,currency,active\na,Ärm,1.2490,piece,eur,FALSE\nb,"B, ""b""",999999.9999,hour,,\n';

const deals = () =>
  'external_id,name,pipeline,stage,company.external_id,contacts.external_id,products,user_id_assigned,estimated_closing_date,close_date,priority,description\n' +
  `d-1,One,sales,LEAD,c-1,p-2;p-1,"[{""id"":{""external_id"":""a""},""price"":0.1,""quantity"":3}]",${userId},2026-03-14,2026-03-31T10:00:00+02:00,HIGHT," x\n"\n` +
  `d-2,Two,Sales,Won,,,,${userId},2026-03-14,2026-03-31,,\n`;

const settings = (object: string, rest: object = {}) => ({ object, mode: 'upsert', match: 'external_id', ...rest });

const importAll = async () => {
  const made = await importFile(app, customer, settings('products'), products);
  expect(countsOf(made), String(made.error)).toMatchObject({ created: 2, failed: 0 });
  const done = await importFile(app, customer, settings('opportunities'), deals());
  expect(countsOf(done), (await errorsOf(customer, done.id)).join()).toMatchObject({ created: 2, failed: 0 });
};
const listOf = async (path: string): Promise<Json[]> => (await customer.post(`${path}/list`, {})).body;

test('a file of deals names other records by own ids, and stages by their names', async () => {
  await importAll();
  expect(await listOf('/products')).toMatchObject([
    { external_id: 'b', name: 'B, "b"', price: 999_999.9999, currency: 'USD', active: true },
    { external_id: 'a', price: 1.249, currency: 'EUR', active: false },
  ]);
  const [two, one] = await listOf('/opportunities');
  expect(two).toMatchObject({ name: 'Two', company_id: null, contacts_ids: [], details: [], priority: 'NONE' });
  expect(one).toMatchObject({
    price: 0.3,
    priority: 'HIGHT',
    details: [{ name: 'Ärm', price: 0.1, quantity: 3 }],
    estimated_closing_date: '2026-03-14T00:00:00.000Z',
    close_date: '2026-03-31T08:00:00.000Z',
  });
  expect((await customer.get(`/company/${one.company_id}`)).body.external_id).toBe('c-1');
  const people = await Promise.all(one.contacts_ids.map((id: string) => customer.get(`/contacts/${id}`)));
  expect(people.map(({ body }) => body.external_id)).toEqual(['p-2', 'p-1']);
});

test.each(['csv', 'ndjson', 'xlsx'])(
  'an exported %s file changes nothing when it is imported again',
  async (format) => {
    await importAll();
    for (const object of ['products', 'opportunities'])
      for (const mode of [
        { mode: 'update', match: 'id' },
        { mode: 'upsert', match: 'external_id' },
      ]) {
        const { status, body } = await customer.post(`/${object}/export`, { format, fields: 'importable' });
        expect(status).toBe(200);
        const id = await sendBytes(customer, settings(object, { ...mode, invalid_values: 'fail' }), Buffer.from(body));
        await workAtAll(app, customer);
        const done = (await customer.get(`/imports/${id}`)).body;
        expect(countsOf(done), `${done.error} ${(await errorsOf(customer, id)).join()}`).toMatchObject({
          total: 2,
          unchanged: 2,
        });
      }
  },
);

test('the failed records of a file of deals say what would be right', async () => {
  await importAll();
  const header = 'external_id,name,pipeline,stage,products,company.external_id';
  const file = [
    header,
    'd-1,,Sales,Lost cause,,',
    'd-1,,,Lead,,',
    'd-1,,,,"[{""id"":{""external_id"":""no""},""price"":1,""quantity"":1}]",',
    'd-1,,,,,nobody',
    'd-1,,,,two engines,',
    'new,N,,,,',
  ].join('\n');
  const done = await importFile(app, customer, settings('opportunities', { invalid_values: 'fail' }), file);
  expect(await errorsOf(customer, done.id)).toEqual([
    expect.stringContaining(
      'stage_id: ""Sales / Lost cause"" is not a stage (such as Sales / Lead, Sales / Qualified, Sales / Proposal',
    ),
    expect.stringContaining('stage_id.pipeline: is missing'),
    expect.stringContaining('products.0.id: no product has the external_id ""no""'),
    expect.stringContaining('company_id: no company has the external_id ""nobody""'),
    expect.stringContaining('products: '),
    expect.stringContaining('stage_id: is required'),
  ]);
  const clash = await importFile(app, customer, settings('opportunities'), 'external_id,stage_id,stage\nx,y,z\n');
  expect(clash.error).toContain('the columns "stage_id" and "stage" are both for the field "stage_id"');
});

test('prices, choices and dates of a file of deals are read as people write them', async () => {
  const priced = [
    'external_id;name;price;unit;active;currency',
    'r1;A;1.500,00;Stk;nein;€',
    'r2;B;2.500;Stk;no;Euro',
    'r3;C;12,50;Stk;ja;CHF',
    'r4;D;1;Stk;maybe;constructor',
    'r5;E;viel;Stk;;',
  ].join('\n');
  const made = await importFile(app, customer, settings('products'), priced);
  expect(countsOf(made), (await errorsOf(customer, made.id)).join('\n')).toMatchObject({ created: 3, failed: 2 });
  expect(await listOf('/products')).toMatchObject([
    { external_id: 'r3', price: 12.5, active: true, currency: 'CHF' },
    { external_id: 'r2', price: 2500, active: false, currency: 'EUR' },
    { external_id: 'r1', price: 1500, active: false, currency: 'EUR' },
  ]);
  expect(await errorsOf(customer, made.id)).toEqual([
    expect.stringContaining('active: ""maybe"" is neither true nor false; currency: ""constructor"" is not'),
    expect.stringContaining('price: ""viel"" is not a number (such as 1234.5)'),
  ]);
  const doubtful = await importFile(app, customer, settings('products'), 'external_id,price\nr3,1.249\n');
  expect(countsOf(doubtful), (await errorsOf(customer, doubtful.id)).join()).toMatchObject({ unchanged: 1 });
  expect(await errorsOf(customer, doubtful.id)).toEqual([expect.stringContaining('can be two numbers')]);
  const priceless = await importFile(app, customer, settings('products'), 'external_id,price,currency\nr3,1.249,EUR\n');
  expect(countsOf(priceless)).toMatchObject({ failed: 1 }); // else the stored price would be in euros

  const header =
    'external_id,name,pipeline,stage,user_id_assigned,estimated_closing_date,close_date,priority,products\n';
  const deal = (id: string, date: string, priority: string, lines: string, closes = '31.12.2026'): string =>
    `${id},N,Sales,Lead,${userId},${date},${closes},${priority},"${lines.replaceAll('"', '""')}"\n`;
  const line = '{"id":{"external_id":"r1"},"price":2.5,"quantity":1.5}';
  const file = header + deal('1', '31.3.2026', 'high', '') + deal('2', '2026-03-14', 'low', `[${line}]`);
  const done = await importFile(app, customer, settings('opportunities'), file);
  expect(await errorsOf(customer, done.id)).toEqual([
    expect.stringContaining('products.0.quantity: 1.5 is not a whole number from 1 to 1000000'),
  ]);
  expect(await listOf('/opportunities')).toMatchObject([
    {
      priority: 'HIGHT',
      estimated_closing_date: '2026-03-31T00:00:00.000Z',
      close_date: '2026-12-31T00:00:00.000Z',
    },
  ]);
});

test('an export of deals for people names what they belong to, and its labels and an owner are understood', async () => {
  await importAll();
  const { body } = await customer.post('/opportunities/export', { format: 'csv', fields: 'readable' });
  const [header, ...rows] = String(body).trim().split('\r\n');
  expect(header).toBe(
    'name,description,price,priority,pipeline_name,stage_name,company_name,contact_names,assigned_email,product_names,estimated_closing_date,close_date,created_at,updated_at',
  );
  const client = await customer.withScopes(['opportunities:read', 'companies:read']);
  const { body: less } = await client.post('/opportunities/export', { format: 'csv', fields: 'readable' });
  expect(String(less).split('\r\n')[0]).toBe(
    'name,description,price,priority,company_name,estimated_closing_date,close_date,created_at,updated_at',
  );
  const [{ email }] = (await customer.get('/customer/users')).body;
  const company = (await listOf('/company'))[0].company_name;
  expect(rows.join('\n')).toContain(`HIGHT,Sales,Lead,${company},`);
  expect(rows.join('\n')).toContain(`,${email},3 × Ärm,2026-03-14T00:00:00.000Z,`);

  const file = `Your own id,Name,Pipeline,Stage,Owner,Priority\nd-1,Renamed,Sales,Qualified,${email.toUpperCase()},low\nd-2,Two,Sales,Won,nobody@example.com,\n`;
  const done = await importFile(app, customer, settings('opportunities', { guess: true }), file);
  expect(countsOf(done), done.error + (await errorsOf(customer, done.id)).join()).toMatchObject({
    updated: 1,
    failed: 1,
  });
  expect((await listOf('/opportunities'))[1]).toMatchObject({
    name: 'Renamed',
    priority: 'LOW',
    user_id_assigned: userId,
  });
  expect(await errorsOf(customer, done.id)).toEqual([expect.stringContaining('no user has the address')]);
});
