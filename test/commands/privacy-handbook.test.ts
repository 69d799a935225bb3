import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp } from '../setup/app.ts';
import { nodeEnvironment } from '../setup/cli.ts';
import { blockOf } from '../setup/handbook.ts';
import { requestsTo, unique } from './requests.ts';

const folder = await temporaryFolder();

const { environment, load, stored } = requestsTo(await startApp());

test('the commands of the handbook answer a request of a person', async () => {
  const ada = unique();
  await load([ada]);
  const files = { ANSWER: join(folder, 'answer'), SAVED: join(folder, 'saved') };
  const bin = join(import.meta.dirname, '../../src/cli.ts');
  const shell = async (block: string) => {
    const script = `sales-data-api() { node ${bin} "$@"; }; set -e\n${blockOf(block, 'privacy.md')}`;
    const env = { ...environment, ...nodeEnvironment, EMAIL: ada.work_email, CASE: 'C-9', ...files } as Record<
      string,
      string
    >;
    return (await promisify(execFile)('bash', ['-c', script], { cwd: folder, env })).stdout;
  };
  expect(await shell('find')).toContain(ada._id);
  await shell('export');
  expect(await readFile(files.ANSWER, 'utf8')).toContain(ada.mobile_phone);
  await shell('restrict');
  expect(await stored([ada])).toEqual([ada._id]);
  expect(await shell('erase')).toMatch(/^deleted +1 people$/m);
  expect(await shell('prove')).toMatch(/Copies of the person\nnone/);
  await shell('save');
  await load([ada]);
  expect(await shell('apply')).toMatch(/^deleted +1 people$/m);
});
