import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp } from '../setup/app.ts';
import { runCommand } from '../setup/cli.ts';
import { createDatabase } from '../setup/database.ts';

const { url } = await startApp();
const folder = await temporaryFolder();

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

const lost = { REDIS_URL: 'redis://127.0.0.1:1' };

test.each<[string, string, (port: string) => Record<string, string>, string]>([
  ['serve', 'although a server of rate limits is away', (PORT) => ({ PORT, ...lost }), 'HOST and PORT'],
  ['serve', 'although it already serves metrics elsewhere', (PORT) => ({ PORT, METRICS_PORT: '0' }), 'HOST and PORT'],
  ['work', 'although a server of rate limits is away', (port) => ({ METRICS_PORT: port, ...lost }), '.*port \\d+'],
])('%s on an occupied port exits 1 with a message, %s', async (verb, _, environmentOf, place) => {
  const { server, port } = await listener();
  const failed = await failedStart(verb, { DATABASE_URL: url, ...environmentOf(String(port)) });
  server.close();
  expect(failed).toEqual(failsWith(new RegExp(`^error: Another program already listens on ${place}`)));
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
