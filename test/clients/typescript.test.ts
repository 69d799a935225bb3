import { execFile, spawn } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { grant } from '../setup/factories.ts';
import { startServerProcess } from '../setup/server-process.ts';
import { startLyingProxy, type LyingProxy } from './lying-proxy.ts';

// The client is packed, installed into an empty folder, compiled there and used against the real service.
const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');
const app = await startApp();
const contacts = '/api/ext/contacts';
let folder: string;
let proxy: LyingProxy;
let url: string;
let packedFiles: string[];
let worker: ReturnType<typeof spawn>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'typescript-client-'));
  ({ url } = await startServerProcess(app.url));
  proxy = await startLyingProxy(url, { [contacts]: ['busy', 'cut'] });
  const environment = {
    PATH: process.env['PATH'],
    DATABASE_URL: app.url,
    VERIFY_DNS_SERVERS: '127.0.0.1:1',
    LOG_LEVEL: 'fatal',
  };
  worker = spawn(process.execPath, ['src/cli.ts', 'work', '--json'], { cwd: root, env: environment, stdio: 'ignore' });
  const source = join(root, 'clients', 'typescript');
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: source });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [{ filename: string; files: { path: string }[] }];
  packedFiles = packed.files.map(({ path }) => path);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', packed.filename], { cwd: folder });
  await copyFile(join(source, 'examples', 'tour.ts'), join(folder, 'tour.ts'));
}, 240_000);
afterAll(async () => {
  worker.kill('SIGKILL');
  proxy.close();
  await rm(folder, { recursive: true });
});

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
  const customer = await app.customer();
  await grant(app.fastify, customer.id, 'verification', 10);
  const { key: readKey } = await customer.withScopes(['contacts:read']);
  const { stdout } = await run(process.execPath, ['tour.ts', url, proxy.url, customer.key, readKey], {
    cwd: folder,
  });
  const seen = JSON.parse(stdout) as Record<string, unknown>;
  const keys = proxy.keysOf(contacts);
  expect(keys).toHaveLength(3);
  expect(new Set(keys).size).toBe(1);
  const [lied] = await app.owner`
    select count(*)::integer as count from contacts where customer_id = ${customer.id} and work_email = 'lied@example.com'`;
  expect(lied!['count']).toBe(1);
  expect(seen).toMatchObject({
    created: expect.stringMatching(/^[0-9a-f-]{36}$/),
    batch: { length: 2_500, failed: [1_700] },
    emails: 2_500,
    youngest: Array.from({ length: 10 }, () => 1999),
    lists: ['Three', 'Two', 'One'],
    products: ['Chair', 'Lamp', 'Desk'],
    job: { status: 'COMPLETED', processed: 2, last: 'COMPLETED' },
    imported: { status: 'COMPLETED', created: 1, failed: 1 },
    faulty: true,
    exported: 2_501,
    errors: [
      { class: 'ValidationError', status: 400, code: 'validation_failed', paths: ['/work_email'] },
      { class: 'AuthenticationError', status: 401, code: 'http_401' },
      { class: 'PermissionError', status: 403, code: 'http_403' },
      { class: 'NotFoundError', status: 404, code: 'not_found' },
      { class: 'ConflictError', status: 409, code: 'conflict', paths: ['/external_id'] },
      { class: 'PreconditionFailedError', status: 412, code: 'precondition_failed' },
      { class: 'IdempotencyMismatchError', status: 422, code: 'idempotency_mismatch' },
      { class: 'TimeoutError' },
      { class: 'ConnectionError' },
    ],
  });
}, 180_000);
