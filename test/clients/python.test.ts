import { execFile, spawnSync } from 'node:child_process';
import { copyFile, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectNightlySync, expectReceiver, expectTwoWaySync } from './examples.ts';
import { root, startTourService } from './tour.ts';

// The client is built as a wheel, installed into an empty environment, checked by mypy and used against the real service.
const run = promisify(execFile);
const hasPython =
  spawnSync('python3', ['-c', 'import sys, venv, ensurepip; assert sys.version_info >= (3, 11)']).status === 0;
const need = hasPython ? '' : ' (needs Python 3.11 with venv: see .ci/run)';

describe.runIf(hasPython)(`the Python client${need}`, async () => {
  const service = await startTourService();
  const { argumentsOf, expectTour } = service;
  let folder: string;
  let python: string;
  let source: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'python-client-'));
    source = join(folder, 'source');
    await cp(join(root, 'clients', 'python'), source, { recursive: true });
    await run('python3', ['generate.py', join(root, 'test', 'contract', 'openapi.json')], { cwd: source });
    await run('python3', ['-m', 'venv', join(folder, 'venv')]);
    python = join(folder, 'venv', 'bin', 'python');
    const pip = (...words: string[]) => run(python, ['-m', 'pip', '--quiet', '--disable-pip-version-check', ...words]);
    await pip('wheel', source, '--no-deps', '--wheel-dir', folder);
    const wheel = (await readdir(folder)).find((name) => name.endsWith('.whl'))!;
    await pip('install', join(folder, wheel), 'mypy==1.18.2');
    await rm(join(source, 'sales_data_client'), { recursive: true });
    await copyFile(join(import.meta.dirname, 'python-faults.py'), join(source, 'faults.py'));
    await copyFile(join(import.meta.dirname, 'tours', 'tour.py'), join(source, 'tour.py'));
  }, 300_000);
  afterAll(() => rm(folder, { recursive: true }));

  test.each([
    ['the wheel and the examples have types for a strict program', ['tour.py', 'faults.py', 'examples']],
    ['the types of the wheel itself are right', ['-p', 'sales_data_client']],
  ])(
    '%s',
    async (_, checked) => {
      const { stdout } = await run(python, ['-m', 'mypy', '--strict', ...checked], { cwd: source }).catch(
        (error: { stdout: string }) => error,
      );
      expect(stdout).toMatch(/^Success: no issues found/);
    },
    120_000,
  );

  test('retries with the same key, cuts batches, follows cursors, waits, and raises an error of a class for each status', async () => {
    const { stdout } = await run(python, ['tour.py', ...(await argumentsOf())], { cwd: source });
    const classes = {
      permission: 'PermissionDeniedError',
      timeout: 'TimedOutError',
      connection: 'ConnectionFailedError',
    };
    await expectTour(stdout, classes);
  }, 180_000);

  test('has the guarantees of python-faults.py: what is repeated, what is shown, and which errors are raised', async () => {
    const [url = '', , key = ''] = await argumentsOf();
    const contract = join(root, 'test', 'contract', 'openapi.json');
    const { stderr } = await run(python, ['faults.py', url, key, contract], {
      cwd: source,
      timeout: 120_000,
    }).catch((error: { stderr: string }) => error);
    expect(stderr).toMatch(/\nOK\n$/);
  }, 180_000);

  const example = (name: string) => ({ command: python, words: [join('examples', name)], cwd: source });

  test('nightly_sync.py keeps a copy that is right after each run, whatever happened before', async () => {
    await expectNightlySync(service, example('nightly_sync.py'));
  }, 180_000);

  test('two_way_sync.py makes both sides the same, after five kills', async () => {
    await expectTwoWaySync(service, example('two_way_sync.py'));
  }, 240_000);

  test('webhook_receiver.py handles each event once, and nothing that is not signed', async () => {
    await expectReceiver(service, example('webhook_receiver.py'));
  }, 120_000);
});
