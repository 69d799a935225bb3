import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { startWorkers } from '../../src/jobs/workers.ts';
import type { Import } from '../../src/schemas/imports.ts';
import { contactLines, contactsCsv } from '../jobs/importing.ts';
import { contextOf } from '../jobs/working.ts';
import { temporaryFolder } from '../setup/at-end.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { runCommand, type Run } from '../setup/cli.ts';
import { makeList } from '../setup/factories.ts';

const app = await startApp();
const workers = await startWorkers({ ...contextOf(app), url: app.url });
const folder = await temporaryFolder();
const customer = customerOfEachTest(app);
afterAll(() => workers.stop());

const run = (noun: string, ...words: string[]): Promise<Run> =>
  runCommand([noun, 'import', ...words, '--customer', customer.id], { DATABASE_URL: app.url, LOG_LEVEL: 'silent' });

/** Writes a file of contacts. Returns its path. */
async function contactsFile(name: string, ...lines: string[]): Promise<string> {
  const path = join(folder, name);
  const text = contactsCsv(...lines);
  await writeFile(path, name.endsWith('.gz') ? gzipSync(text) : text);
  return path;
}

const importsOf = async (): Promise<Import[]> => (await customer.post('/imports/list', {})).body;

test('an import reports its numbers, and writes the failed records to a file', async () => {
  const list = await makeList(app.fastify, customer);
  const file = await contactsFile('some.csv.gz', ...contactLines(5), 'Ada,Bad,no address,');
  const errors = join(folder, 'errors.csv');
  const words = ['--mode', 'upsert', '--match', 'work_email', '--list', list, '--name', 'Leads', '--errors', errors];
  expect(await run('contacts', file, ...words)).toEqual({
    code: 0,
    stdout: 'COMPLETED: 5 created, 0 updated, 0 unchanged, 1 failed\n',
    stderr: '',
  });
  expect(await readFile(errors, 'utf8')).toContain('Ada,Bad,no address,,7,');
  expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(5);
  const again = await run('contacts', file, ...words, '--json');
  expect(JSON.parse(again.stdout)).toMatchObject({ status: 'COMPLETED', unchanged: 5, failed: 1, name: 'Leads' });
  expect(await importsOf()).toHaveLength(2);
});

test.each(['a file', 'standard input'])(
  'from %s, the same command goes on with the import of an interrupted run, and begins a new one after an ended one',
  async (from) => {
    const text = contactsCsv(...contactLines(3));
    const file = from === 'a file' ? await contactsFile('resumed.csv', ...contactLines(3)) : '-';
    const again = () =>
      runCommand(
        ['contacts', 'import', file, '--customer', customer.id],
        { DATABASE_URL: app.url, LOG_LEVEL: 'silent' },
        file === '-' ? text : '',
      );
    // As an interrupted run has left it.
    const { id } = (await customer.post('/imports', { object: 'contacts', mode: 'create' })).body.data;
    await app.owner`
      update imports set fingerprint = sha256(convert_to(${`${JSON.stringify({ object: 'contacts', mode: 'create' })}\n`}, 'UTF8')
        || convert_to(${text}, 'UTF8')) where id = ${id}`;
    expect(await again()).toMatchObject({ code: 0, stdout: expect.stringContaining('3 created') });
    expect((await importsOf()).map((one) => one.id)).toEqual([id]);
    expect(await again()).toMatchObject({ code: 0, stdout: expect.stringContaining('3 created') });
    expect(await importsOf()).toHaveLength(2);
  },
);

test('an import that fails exits with 1 and says why', async () => {
  const file = join(folder, 'unknown.csv');
  await writeFile(file, 'nothing\n1\n');
  const { code, stdout, stderr } = await run('companies', file, '--mode', 'create');
  expect({ code, stdout }).toEqual({ code: 1, stdout: 'FAILED: 0 created, 0 updated, 0 unchanged, 0 failed\n' });
  expect(stderr).toContain('nothing');
});

test.each([
  ['an unknown mode', ['companies', '--mode', 'replace'], '--mode'],
  ['companies by e-mail address', ['companies', '--mode', 'update', '--match', 'work_email'], '--match'],
  ['a mapping that is no JSON', ['contacts', '--mode', 'create', '--mapping', 'x'], '--mapping'],
])('%s is wrong usage', async (_name, [noun, ...words], option) => {
  const file = await contactsFile('wrong.csv', ...contactLines(1));
  const { code, stdout, stderr } = await run(noun!, file, ...words);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(option);
});

test('guesses columns, shows the mapping first, and starts only if that is agreed', async () => {
  const file = join(folder, 'people.csv');
  await writeFile(
    file,
    'Vorname;E-Mail;Land;Schuhgröße\nAda;ada@example.com;Germoney;38\nBob;b@example.com;Deutschland;40\n',
  );
  const words = ['--guess'];
  const unanswered = await run('contacts', file, ...words);
  expect(unanswered).toMatchObject({ code: 2, stderr: expect.stringContaining('add --yes') });
  expect(await importsOf()).toEqual([]);
  const done = await run('contacts', file, ...words, '--yes');
  expect(done).toMatchObject({
    code: 0,
    stdout: 'COMPLETED: 2 created, 0 updated, 0 unchanged, 0 failed, 1 written with a value left out\n',
  });
  expect(done.stderr).toMatch(/^Warning: record \d+, \w+: /m);
  expect(done.stderr).toMatch(/^E-Mail +work_email +guess +ada@example\.com$/m);
  expect(done.stderr).toMatch(/^Schuhgröße +\(left out\) +38$/m);
  const strict = await run('contacts', file, ...words, '--yes', '--invalid-values', 'fail');
  expect(strict.stdout).toBe('COMPLETED: 1 created, 0 updated, 0 unchanged, 1 failed\n');
  await writeFile(file, '"open\n');
  expect(await run('contacts', file, ...words, '--yes')).toMatchObject({ code: 1 });
  expect((await importsOf()).map(({ status }) => status)).toEqual(['CANCELLED', 'COMPLETED', 'COMPLETED']);
});
