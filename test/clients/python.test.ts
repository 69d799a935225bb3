import { execFile, spawnSync } from 'node:child_process';
import { copyFile, cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testExamples } from './examples.ts';
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
  }, 900_000);
  afterAll(() => rm(folder, { recursive: true }));

  test('the wheel and the examples have types for a strict program', async () => {
    for (const checked of [
      ['tour.py', 'faults.py', 'examples'],
      ['-p', 'sales_data_client'],
    ]) {
      const checking = run(python, ['-m', 'mypy', '--strict', ...checked], { cwd: source });
      const { stdout } = await checking.catch((error: { stdout: string }) => error);
      expect(stdout).toMatch(/^Success: no issues found/);
    }
  }, 600_000);

  test('retries with the same key, cuts batches, follows cursors, waits, and raises an error of a class for each status', async () => {
    const { stdout } = await run(python, ['tour.py', ...(await argumentsOf())], { cwd: source });
    const classes = {
      permission: 'PermissionDeniedError',
      timeout: 'TimedOutError',
      connection: 'ConnectionFailedError',
    };
    await expectTour(stdout, classes);
  }, 600_000);

  test('has the guarantees of python-faults.py: what is repeated, what is shown, and which errors are raised', async () => {
    const [url = '', , key = ''] = await argumentsOf();
    const contract = join(root, 'test', 'contract', 'openapi.json');
    const { stderr } = await run(python, ['faults.py', url, key, contract], {
      cwd: source,
      timeout: 500_000,
    }).catch((error: { stderr: string }) => error);
    expect(stderr).toMatch(/\nOK\n$/);
  }, 600_000);

  testExamples(service, ['nightly_sync.py', 'two_way_sync.py', 'webhook_receiver.py'], (name) => ({
    command: python,
    words: [join('examples', name)],
    cwd: source,
  }));
});
