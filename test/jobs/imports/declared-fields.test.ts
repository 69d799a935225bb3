import { beforeEach, expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { contactBody, make } from '../../setup/factories.ts';
import { importFile } from '../importing.ts';

const app = await startApp();
const customer = customerOfEachTest(app);
beforeEach(async () => {
  const choices = ['Silver', 'Gold'];
  for (const [key, body] of Object.entries({
    seats: { type: 'number' },
    vip: { type: 'boolean' },
    since: { type: 'date' },
    site: { type: 'url' },
    code: { type: 'text' },
    plan: { type: 'choice', choices },
  }))
    await customer.call('PUT', `/fields/contacts/${key}`, body);
});

const keys = ['seats', 'vip', 'since', 'site', 'code', 'plan'];
const header = ['first_name,work_email', ...keys.map((key) => `custom_fields.${key}`)].join(',');
const created = { object: 'contacts', mode: 'create' } as const;
const fileOf = (...lines: string[]): string => [header, ...lines].join('\n');

const customOf = async (): Promise<Record<string, unknown>[]> =>
  (await customer.post('/contacts/list', { order_by: { first_name: 'ASC' } })).body.map(
    ({ custom_fields }: { custom_fields: object }) => custom_fields,
  );
const messagesOf = async (id: string) =>
  (await customer.get(`/imports/${id}/failures`)).body.map(({ line, error, warning }: Record<string, unknown>) => [
    line,
    error ?? warning,
  ]);

test('a column of a declared field is read by its type, whatever the other cells are', async () => {
  const done = await importFile(
    app,
    customer,
    created,
    fileOf(
      'Ada,ada@example.com,"1.249,00",ja,31.12.2024,example.com/a,7,gold',
      'Bob,bob@example.com,"12,5",FALSE,2024-01-31,http://example.com,007, SILVER ',
      'Cy,cy@example.com,-,n/a,0000-00-00,-,true,n/a',
    ),
  );
  expect(done).toMatchObject({ status: 'COMPLETED', created: 3, warnings: 0 });
  expect(await customOf()).toEqual([
    { seats: 1249, vip: true, since: '2024-12-31', site: 'https://example.com/a', code: '7', plan: 'Gold' },
    { seats: 12.5, vip: false, since: '2024-01-31', site: 'http://example.com', code: '007', plan: 'Silver' },
    { code: 'true' },
  ]);
});

test('a field can have the name of a member that all objects have', async () => {
  const file = 'work_email,custom_fields.constructor,custom_fields.a\nada@example.com,,b\nbob@example.com,c,\n';
  const done = await importFile(app, customer, created, file);
  expect(done).toMatchObject({ status: 'COMPLETED', created: 2, warnings: 0 });
  const stored = await customOf();
  expect(new Set(stored.map((fields) => JSON.stringify(fields)))).toEqual(
    new Set(['{"a":"b"}', '{"constructor":"c"}']),
  );
});

const wrong = fileOf('Ada,ada@example.com,many,perhaps,soon,no site,x,Bronze');
const faults = [
  'custom_fields.seats: "many" is not a number (such as 1234.5)',
  'custom_fields.vip: "perhaps" is neither true nor false',
  'custom_fields.since: "soon" is not a date (such as 2024-12-31)',
  'custom_fields.site: "no site" is not a web address (such as https://example.com)',
  'custom_fields.plan: "Bronze" is not one of its choices: Silver, Gold',
];

test('a value that is not of the declared type is left out with a warning, or fails its record', async () => {
  const done = await importFile(app, customer, created, wrong);
  expect(done).toMatchObject({ status: 'COMPLETED', created: 1, warnings: 1 });
  expect(await customOf()).toEqual([{ code: 'x' }]);
  expect(await messagesOf(done.id)).toEqual([[2, faults.join('; ')]]);
  const failed = await importFile(app, customer, { ...created, invalid_values: 'fail' }, wrong);
  expect(failed).toMatchObject({ status: 'COMPLETED', created: 0, failed: 1 });
  for (const fault of faults.slice(0, 4)) expect((await messagesOf(failed.id))[0][1]).toContain(fault);
});

test('NDJSON and whole JSON columns are checked like single values', async () => {
  const values = { seats: '7', since: '2024-12-31', site: 'ftp://example.com' };
  const record = { first_name: 'Ada', work_email: 'ada@example.com', custom_fields: values };
  const failed = await importFile(app, customer, { ...created, format: 'ndjson' }, JSON.stringify(record));
  expect(failed).toMatchObject({ failed: 1 });
  expect(await messagesOf(failed.id)).toEqual([
    [
      1,
      'custom_fields.seats: "7" is not a number (such as 12.5); ' +
        'custom_fields.site: "ftp://example.com" is not a web address (such as https://example.com)',
    ],
  ]);
  const cell = JSON.stringify(values).replaceAll('"', '""');
  const text = `first_name,work_email,custom_fields\nAda,ada@example.com,"${cell}"`;
  expect(await importFile(app, customer, created, text)).toMatchObject({ created: 1, warnings: 1 });
  expect(await customOf()).toEqual([{ since: '2024-12-31' }]);
});

test('an export from before the declaration comes back unchanged', async () => {
  const custom_fields = { seats: 'many', plan: 'Bronze', code: 'x' };
  await customer.delete('/fields/contacts/seats');
  await customer.delete('/fields/contacts/plan');
  const valid = { first_name: 'Bob', external_id: 'y', custom_fields: { seats: 7, plan: 'Gold' } };
  await make(customer, '/contacts', contactBody({ external_id: 'x', custom_fields }));
  await make(customer, '/contacts', contactBody(valid));
  await customer.call('PUT', '/fields/contacts/seats', { type: 'number' });
  await customer.call('PUT', '/fields/contacts/plan', { type: 'choice', choices: ['Gold'] });
  const { body } = await customer.post('/contacts/export', { format: 'csv' });
  const again = { object: 'contacts', mode: 'upsert', match: 'external_id' };
  expect(await importFile(app, customer, again, body)).toMatchObject({ unchanged: 2, failed: 0 });
  expect(await customOf()).toEqual([custom_fields, valid.custom_fields]);
  const lines = String((await customer.post('/contacts/export', { format: 'ndjson' })).body);
  expect(await importFile(app, customer, { ...again, format: 'ndjson' }, lines)).toMatchObject({
    unchanged: 2,
    failed: 0,
  });
  const other = lines.replace('"many"', '"few"');
  const failed = await importFile(app, customer, { ...again, format: 'ndjson' }, other);
  expect(failed).toMatchObject({ unchanged: 1, failed: 1 });
  expect(JSON.stringify(await messagesOf(failed.id))).toContain('custom_fields.seats: \\"few\\" is not a number');
});
