import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp } from '../setup/app.ts';
import { runCli, runCommand, type Run } from '../setup/cli.ts';
import { companyBody, contactBody, make, type TestCustomer } from '../setup/factories.ts';
import { somebodyWaitsFor } from '../setup/locks.ts';

const app = await startApp();
let customer: TestCustomer;
const folder = await temporaryFolder();

beforeAll(async () => {
  customer = await app.customer();
  const company = await make(customer, '/company', companyBody());
  for (const first_name of ['Ada', 'Bob'])
    await make(customer, '/contacts', contactBody({ first_name, company: { id: company } }));
});

const run = (noun: string, ...words: string[]): Promise<Run> =>
  runCommand([noun, 'export', '--customer', customer.id, ...words], { DATABASE_URL: app.url });

test('an export goes to standard output as CSV, exactly as over HTTP', async () => {
  for (const [noun, path] of [
    ['contacts', '/contacts'],
    ['companies', '/company'],
  ] as const) {
    const { body } = await customer.post(`${path}/export`, { format: 'csv' });
    expect(await run(noun)).toEqual({ code: 0, stdout: body, stderr: '' });
  }
  const chosen = await run('contacts', '--fields', 'first_name, custom_fields.plan', '--format', 'ndjson');
  expect(chosen.stdout).toBe('{"first_name":"Bob"}\n{"first_name":"Ada"}\n');
});

test('an export to a file says how many records it holds; the ending of the name decides its format', async () => {
  const output = join(folder, 'contacts.ndjson');
  const { stdout, code } = await run('contacts', '--fields', 'all', '--output', output, '--json');
  expect([code, JSON.parse(stdout)]).toEqual([0, { customer_id: customer.id, records: 2, output }]);
  const { body } = await customer.post('/contacts/export', { format: 'ndjson', fields: 'all' });
  expect(await readFile(output, 'utf8')).toBe(body);
  expect((await run('companies', '--output', join(folder, 'all.csv'))).stdout).toBe(
    `Wrote 1 companies to ${join(folder, 'all.csv')}\n`,
  );
  expect(await run('companies', '--output', '/dev/null', '--format', 'csv')).toMatchObject({ code: 0 });
});

test('an export that fails leaves the file as it was, and nothing else', async () => {
  const output = join(folder, 'kept.csv');
  await writeFile(output, 'kept');
  const before = (await readdir(folder)).toSorted();
  const unknown = ['contacts', 'export', '--customer', '01990000-0000-7000-8000-000000000000', '--output', output];
  expect(await runCommand(unknown, { DATABASE_URL: app.url })).toMatchObject({ code: 1, stdout: '' });
  expect(await readFile(output, 'utf8')).toBe('kept');
  expect((await readdir(folder)).toSorted()).toEqual(before);
});

test('of two exports to one file at once, each writes a whole file', async () => {
  const output = join(folder, 'shared.csv');
  const before = await readdir(folder);
  const { body: companies } = await customer.post('/company/export', { format: 'csv' });
  const { body: contacts } = await customer.post('/contacts/export', { format: 'csv' });
  const slow = await app.owner.begin(async (sql) => {
    await sql`lock table contacts in access exclusive mode`;
    const words = ['contacts', 'export', '--customer', customer.id, '--output', output];
    const started = runCli(words, { DATABASE_URL: app.url, STATEMENT_TIMEOUT_MS: '60000' });
    await somebodyWaitsFor(sql, app.owner);
    expect(await run('companies', '--output', output)).toMatchObject({ code: 0, stderr: '' });
    expect(await readFile(output, 'utf8')).toBe(companies);
    return { started };
  });
  expect(await slow.started).toMatchObject({ code: 0, stderr: '' });
  expect(await readFile(output, 'utf8')).toBe(contacts);
  expect((await readdir(folder)).toSorted()).toEqual([...before, 'shared.csv'].toSorted());
}, 60_000);

test.each([
  ['--json without a file', ['--json'], '--output'],
  ['a file name without format', ['--output', 'contacts.txt'], '--format'],
  ['an unknown format', ['--format', 'xml'], 'csv, ndjson, xlsx'],
  ['an unknown field', ['--fields', 'id,nonsense'], 'nonsense is not a field'],
  ['readable fields as NDJSON', ['--format', 'ndjson', '--fields', 'readable'], 'readable'],
  ['a field twice', ['--fields', 'id,id'], 'named twice'],
])('wrong usage is exit 2: %s', async (_what, words, message) => {
  expect(await run('contacts', ...words)).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining(message),
  });
});

test('a reader that closes the pipe early ends the export without an error', async () => {
  await app.owner`
    insert into companies (customer_id, company_name, folded)
    select ${customer.id}, 'Company ' || n,
      jsonb_build_object('company_name', 'company ' || n, 'type', '', 'size', '', 'industry', '', 'location_country', '')
    from generate_series(1, 5000) n`;
  const words = ['companies', 'export', '--customer', customer.id];
  const run = await runCli(words, { DATABASE_URL: app.url }, '', { closeStdout: true });
  expect(run).toEqual({ code: 0, stdout: '', stderr: '' });
});
