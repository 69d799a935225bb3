import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp } from '../setup/app.ts';
import { runCommand, type Run } from '../setup/cli.ts';
import { companyBody, contactBody, make, type TestCustomer } from '../setup/factories.ts';

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

test.each([
  ['--json without a file', ['--json'], '--output'],
  ['a file name without format', ['--output', 'contacts.txt'], '--format'],
  ['an unknown field', ['--fields', 'id,nonsense'], 'nonsense is not a field'],
  ['readable fields as NDJSON', ['--format', 'ndjson', '--fields', 'readable'], 'readable'],
])('wrong usage is exit 2: %s', async (_what, words, message) => {
  expect(await run('contacts', ...words)).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining(message),
  });
});
