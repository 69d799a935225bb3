import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { root, startTourService } from './tour.ts';

// The client is packed, installed into an empty folder, compiled there and used against the real service.
const run = promisify(execFile);
const { argumentsOf, expectTour } = await startTourService();
let folder: string;
let packedFiles: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'typescript-client-'));
  const source = join(root, 'clients', 'typescript');
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: source });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [{ filename: string; files: { path: string }[] }];
  packedFiles = packed.files.map(({ path }) => path);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', packed.filename], { cwd: folder });
  await copyFile(join(source, 'examples', 'tour.ts'), join(folder, 'tour.ts'));
}, 240_000);
afterAll(() => rm(folder, { recursive: true }));

test('the packed client has the built files only', () => {
  const isExpected = (path: string) => /^(dist\/.*\.(js|d\.ts)|package\.json|README\.md)$/.test(path);
  expect(packedFiles).toContain('dist/index.js');
  expect(packedFiles.filter((path) => !isExpected(path))).toEqual([]);
});

test('the packed client has types for a strict program', async () => {
  const options = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--noEmit', '--types', 'node'];
  const roots = ['--typeRoots', join(root, 'node_modules', '@types'), '--skipLibCheck'];
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { stdout } = await run(process.execPath, [tsc, ...options, ...roots, 'tour.ts'], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toBe('');
}, 120_000);

test('retries with the same key, cuts batches, follows cursors, waits, and throws an error of a class for each status', async () => {
  const { stdout } = await run(process.execPath, ['tour.ts', ...(await argumentsOf())], { cwd: folder });
  const classes = { permission: 'PermissionError', timeout: 'TimeoutError', connection: 'ConnectionError' };
  await expectTour(stdout, classes);
}, 180_000);
