import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { nodeEnvironment, runCommand } from '../setup/cli.ts';
import { createDatabase } from '../setup/database.ts';

const { url } = await startApp();
const folder = await mkdtemp(join(tmpdir(), 'starting-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Starts a command that must fail, and returns its exit code, its stdout and the lines of its stderr. */
async function failedStart(verb: string, environment: Record<string, string>) {
  const { code, stdout, stderr } = await runCommand([verb], { LOG_LEVEL: 'error', ...environment });
  return { code, stdout, lines: stderr.trimEnd().split('\n') };
}

const failsWith = (line: RegExp) => ({ code: 1, stdout: '', lines: [expect.stringMatching(line)] });

/** Starts a server that occupies a port. */
async function listener(): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

test.each([
  ['alone', {}],
  ['although it shares rate limits with a server that is away', { REDIS_URL: 'redis://127.0.0.1:1' }],
  ['although it already serves metrics on a port of their own', { METRICS_PORT: '0' }],
])('serve on an occupied port exits 1 with a message, %s', async (_, more) => {
  const { server, port } = await listener();
  const failed = await failedStart('serve', { DATABASE_URL: url, PORT: String(port), ...more });
  server.close();
  expect(failed).toEqual(failsWith(/^error: Another program already listens on HOST and PORT/));
});

/** Starts a command, ends it when it has written to stdout, and returns the lines of its output. */
async function outputOf(verb: string, environment: Record<string, string>): Promise<string[]> {
  const child = spawn(process.execPath, ['src/cli.ts', verb], {
    env: { ...nodeEnvironment, DATABASE_URL: url, PORT: '0', ...environment },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const output = [text(child.stdout), text(child.stderr)];
  await once(child.stdout, 'data');
  child.kill('SIGTERM');
  return (await Promise.all(output)).join('').trimEnd().split('\n');
}

test.each(['serve', 'work'])('%s says when it has started, in a line of JSON if the log is JSON', async (verb) => {
  const lines = await outputOf(verb, {});
  expect(lines.map((line) => JSON.parse(line) as object)).toContainEqual(
    expect.objectContaining({ [verb === 'serve' ? 'url' : 'working']: expect.anything() }),
  );
});

test('serve says when it has started, in plain text if the log is for people', async () => {
  const lines = await outputOf('serve', { LOG_FORMAT: 'pretty' });
  expect(lines).toContainEqual(expect.stringMatching(/^Serving on http:/));
});

test('work exits 1 if METRICS_PORT is occupied, also when it shares rate limits with a server that is away', async () => {
  const { server, port } = await listener();
  const environment = { DATABASE_URL: url, METRICS_PORT: String(port), REDIS_URL: 'redis://127.0.0.1:1' };
  const failed = await failedStart('work', environment);
  server.close();
  expect(failed).toEqual(failsWith(new RegExp(`^error: Another program already listens on .*port ${port}`)));
});

describe('serve exits 1 with one line that says what to do', () => {
  const file = join(folder, 'file');
  test.each<[string, Record<string, string>, RegExp]>([
    [
      'no server listens at DATABASE_URL',
      { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/db' },
      /no server listens on the host and port in DATABASE_URL/,
    ],
    [
      'the database has no TLS although sslmode asks for it',
      { DATABASE_URL: `${url}?sslmode=require` },
      /^error: The database has no TLS although `sslmode` asks for it/,
    ],
    ['DATA_DIR cannot be a folder', { DATA_DIR: join(file, 'data') }, /DATA_DIR/],
    ['DATA_DIR is a file', { DATA_DIR: file }, /DATA_DIR/],
    ['no folder can be created in DATA_DIR', { DATA_DIR: '/proc/x/y' }, /: no folder can be created here.*DATA_DIR/],
  ])('if %s', async (_, environment, message) => {
    await writeFile(file, '');
    expect(await failedStart('serve', environment)).toEqual(failsWith(message));
  });

  test('if the database is not migrated', async () => {
    const { url: empty, drop } = await createDatabase('nothing');
    const failed = await failedStart('serve', { DATABASE_URL: empty });
    await drop();
    expect(failed).toEqual(failsWith(/^error: The database .*migrate/));
  });

  test('and one line for each fault of the configuration', async () => {
    const faults = { UNLOCK_COST: '1.5', TRUST_PROXY: 'xyz', CORS_ORIGINS: 'foo' };
    const { code, stdout, lines } = await failedStart('serve', { DATABASE_URL: url, ...faults });
    expect([code, stdout]).toEqual([1, '']);
    const named = lines.slice(1).map((line) => line.trim().split(':')[0]!);
    expect(named.toSorted()).toEqual(Object.keys(faults).toSorted());
  });
});
