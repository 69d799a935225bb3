import { expect, test } from 'vitest';
import type { Import } from '../../../src/schemas/imports.ts';
import { customerOfEachTest, startApp } from '../../setup/app.ts';
import { contactBody, make } from '../../setup/factories.ts';
import {
  beginImport,
  contactsCsv,
  failurePages,
  importFile,
  newContacts,
  openErrors,
  sendFile,
  workAtAll,
} from '../importing.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const pagesOf = (id: string, limit: number) => failurePages(customer, id, limit);
const importLines = (...lines: string[]): Promise<Import> =>
  importFile(app, customer, newContacts, contactsCsv(...lines));

test('every failed record is in one page, in the order of the file, with its line and its cells', async () => {
  // Of several transactions, and of several parts of the stored text.
  const count = 1_203;
  const note = (n: number) => `${n} "😀";\n${'é'.repeat(n % 500)}`;
  const lines = Array.from({ length: count }, (_, n) => `"${note(n).replaceAll('"', '""')}",No ${n},no address,`);
  const done = await importLines('Ada,Lovelace,ada@example.com,', ...lines);
  expect(done).toMatchObject({ status: 'COMPLETED', created: 1, failed: count });
  const pages = await pagesOf(done.id, 100);
  expect(pages.map((page) => page.length)).toEqual([...Array.from({ length: 12 }, () => 100), 3]);
  const expected = Array.from({ length: count }, (_, n) => ({
    line: 3 + 2 * n,
    error: expect.stringMatching(/work_email/) as string,
    record: { first_name: note(n), last_name: `No ${n}`, work_email: 'no address', phone_numbers: '' },
  }));
  expect(pages.flat()).toEqual(expected);
  const { body } = await customer.get(`/imports/${done.id}/failures`);
  expect(body).toEqual(expected.slice(0, 25));
});

test('of columns with the same header each has a name of its own', async () => {
  const settings = { ...newContacts, ignore_unknown: true, guess: true };
  const text = 'Phone,Last name,E-mail,Phone,Phone (2)\n+49 30 901820,L,no @ddress,+49 30 901821,x';
  const done = await importFile(app, customer, { ...settings, invalid_values: 'skip' }, text);
  const [[first, second] = []] = await pagesOf(done.id, 10);
  expect(first).toMatchObject({ line: 1, record: { 'Phone (3)': 'Phone', 'Phone (2)': 'Phone (2)' } });
  expect(second!.record).toEqual({
    Phone: '+49 30 901820',
    'Last name': 'L',
    'E-mail': 'no @ddress',
    'Phone (3)': '+49 30 901821',
    'Phone (2)': 'x',
  });
});

test('more than 20 other addresses are named in a warning, or fail the record, new and stored', async () => {
  const emails = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}@x.example`);
  const settings = { object: 'contacts', mode: 'upsert', match: 'external_id' };
  await make(customer, '/contacts', contactBody({ external_id: 'full', other_emails: emails('s', 19) }));
  const lines = [`new,A,${emails('n', 22).join('; ')}`, 'full,C,w@x.example; s3@x.example; t1@x.example; t2@x.example'];
  const text = ['external_id,first_name,work_email', ...lines].join('\n');
  const messages = ['n21', 't2'].map((name) => `other_emails: has more than 20 addresses: "${name}@x.example"`);
  const failed = await importFile(app, customer, { ...settings, invalid_values: 'fail' }, text);
  expect(failed).toMatchObject({ created: 0, updated: 0, failed: 2 });
  expect((await pagesOf(failed.id, 10)).flat()).toMatchObject(messages.map((error) => ({ error })));
  const done = await importFile(app, customer, settings, text);
  expect(done).toMatchObject({ created: 1, updated: 1, failed: 0, warnings: 2 });
  expect((await pagesOf(done.id, 10)).flat()).toMatchObject(messages.map((warning) => ({ warning })));
  const { body } = await customer.post('/contacts/list', { order_by: { external_id: 'DESC' } });
  expect(body.map(({ other_emails: others }: { other_emails: string[] }) => others)).toEqual([
    emails('n', 21).slice(1),
    [...emails('s', 19), 't1@x.example'],
  ]);
});

test('cells with NUL characters are kept until the record is written, and shown with a replacement', async () => {
  const done = await importFile(app, customer, newContacts, contactsCsv('A\0da,Lovelace,ada@example.com,'));
  expect(done).toMatchObject({ status: 'COMPLETED', failed: 1 });
  const { body } = await customer.get(`/imports/${done.id}/failures`);
  expect(body).toMatchObject([{ line: 2, error: expect.stringContaining('NUL'), record: { first_name: 'A\ufffdda' } }]);
});

test('without failures the page is empty; before a file is there it is 409', async () => {
  const done = await importLines('Ada,Lovelace,ada@example.com,');
  expect(await pagesOf(done.id, 10)).toEqual([[]]);
  const waiting = await beginImport(customer);
  expect(await customer.get(`/imports/${waiting}/failures`)).toMatchObject({ status: 409, body: { code: 'conflict' } });
});

test('a cursor of another import, a limit that is none and an unknown word are rejected', async () => {
  const [one, other] = [await importLines('A,B,x,', 'A,B,x,'), await importLines('A,B,x,', 'A,B,x,')];
  const page = await customer.get(`/imports/${one.id}/failures?limit=1`);
  const cursor = page.headers['x-next-cursor'] as string;
  for (const query of [`cursor=${cursor}`, 'cursor=x', 'limit=0', 'limit=101', 'limit=ten', 'page=1'])
    expect(await customer.get(`/imports/${other.id}/failures?${query}`), query).toMatchObject({
      status: 400,
      body: { code: 'validation_failed', errors: [{ path: `/${query.split('=')[0]}` }] },
    });
  const stranger = await app.customer();
  expect((await stranger.get(`/imports/${one.id}/failures`)).status).toBe(404);
});

test('an errors file that is opened before its import ends has the columns of the import and all failed records', async () => {
  const id = await beginImport(customer, newContacts);
  await sendFile(customer, id, contactsCsv('Ada,Lovelace,no address,'));
  const { readAll } = await openErrors(app, customer, id);
  await workAtAll(app, customer);
  const pieces = (await readAll()).map(String);
  const columns = 'first_name,last_name,work_email,phone_numbers,_line,_error,_warning\r\n';
  expect(pieces).toEqual([columns, expect.stringMatching(/^Ada,Lovelace,no address,,2,/)]);
});
