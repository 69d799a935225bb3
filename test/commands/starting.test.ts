import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { nodeEnvironment, runCli } from '../setup/cli.ts';
import { createDatabase } from '../setup/database.ts';

const { url } = await startApp();
const folder = await mkdtemp(join(tmpdir(), 'starting-'));
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Starts a command that must fail, and returns its exit code, its stdout and the lines of its stderr. */
async function failedStart(verb: string, environment: Record<string, string>) {
  const { code, stdout, stderr } = await runCli([verb], { LOG_LEVEL: 'error', ...environment });
  return { code, stdout, lines: stderr.trimEnd().split('\n') };
}

const failsWith = (line: RegExp) => ({ code: 1, stdout: '', lines: [expect.stringMatching(line)] });

/** Starts a server that occupies a port. */
async function listener(): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}

test('serve on an occupied port exits 1 with a message', async () => {
  const { server, port } = await listener();
  const failed = await failedStart('serve', { DATABASE_URL: url, PORT: String(port) });
  server.close();
  expect(failed).toEqual(failsWith(/^error: Another program already listens on HOST and PORT/));
});

test('serve on a port that is taken ends although it shares rate limits with a server that is away', async () => {
  const { server, port } = await listener();
  const environment = { DATABASE_URL: url, PORT: String(port), REDIS_URL: 'redis://127.0.0.1:1' };
  const failed = await failedStart('serve', environment);
  server.close();
  expect(failed).toEqual(failsWith(/^error: Another program already listens on HOST and PORT/));
});

test('serve on an occupied port ends although it already serves metrics on a port of their own', async () => {
  const { server, port } = await listener();
  const failed = await failedStart('serve', { DATABASE_URL: url, PORT: String(port), METRICS_PORT: '0' });
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

describe.each([
  ['serve', /^Serving on http:/],
  ['work', /^Working$/],
])('%s says when it has started', (verb, message) => {
  test('in a line of JSON if the log is JSON', async () => {
    const lines = await outputOf(verb, {});
    expect(lines.map((line) => JSON.parse(line) as object)).toContainEqual(
      expect.objectContaining({ [verb === 'serve' ? 'url' : 'working']: expect.anything() }),
    );
  });

  test('in plain text if the log is for people', async () => {
    expect(await outputOf(verb, { LOG_FORMAT: 'pretty' })).toContainEqual(expect.stringMatching(message));
  });
});

describe.each(['serve', 'work'])('%s exits 1 with one line that says what to do', (verb) => {
  test('if METRICS_PORT is occupied, also when it shares rate limits with a server that is away', async () => {
    const { server, port } = await listener();
    const environment = { METRICS_PORT: String(port), PORT: '0', REDIS_URL: 'redis://127.0.0.1:1' };
    const failed = await failedStart(verb, { DATABASE_URL: url, ...environment });
    server.close();
    expect(failed).toEqual(failsWith(new RegExp(`^error: Another program already listens on .*port ${port}`)));
  });

  test('if no server listens at DATABASE_URL', async () => {
    const failed = await failedStart(verb, { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/db' });
    expect(failed).toEqual(failsWith(/no server listens on the host and port in DATABASE_URL/));
  });

  test('if the database has no TLS although sslmode asks for it', async () => {
    const failed = await failedStart(verb, { DATABASE_URL: `${url}?sslmode=require` });
    expect(failed).toEqual(failsWith(/^error: The database has no TLS although `sslmode` asks for it/));
  });

  test('if the database is not migrated', async () => {
    const { url: empty, drop } = await createDatabase('nothing');
    const failed = await failedStart(verb, { DATABASE_URL: empty });
    await drop();
    expect(failed).toEqual(failsWith(/^error: The database .*migrate/));
  });

  test('if DATA_DIR cannot be a folder', async () => {
    await writeFile(join(folder, 'file'), '');
    const failed = await failedStart(verb, { DATA_DIR: join(folder, 'file', 'data') });
    expect(failed).toEqual(failsWith(/DATA_DIR/));
  });

  test.runIf(process.platform === 'linux')('when no folder can be created in DATA_DIR', async () => {
    const failed = await failedStart(verb, { DATA_DIR: '/proc/x/y' });
    expect(failed).toEqual(failsWith(/^error: \/proc\/x: no folder can be created here.*DATA_DIR/));
  });

  test('when DATA_DIR is a file', async () => {
    await writeFile(join(folder, 'file'), '');
    const failed = await failedStart(verb, { DATA_DIR: join(folder, 'file') });
    expect(failed).toEqual(failsWith(/DATA_DIR/));
  });

  test('and one line for each fault of the configuration', async () => {
    const faults = { UNLOCK_COST: '1.5', TRUST_PROXY: 'xyz', CORS_ORIGINS: 'foo' };
    const { code, stdout, lines } = await failedStart(verb, { DATABASE_URL: url, ...faults });
    expect([code, stdout]).toEqual([1, '']);
    const named = lines.slice(1).map((line) => line.trim().split(':')[0]!);
    expect(named.toSorted()).toEqual(Object.keys(faults).toSorted());
  });
});
