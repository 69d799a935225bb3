import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Limit, RedisServer } from '../../src/access/rate-limits.ts';
import { needRedis, noRedis, RedisProcess } from '../setup/redis.ts';

/** Creates a log that collects its lines. */
function keptLog() {
  const lines: string[] = [];
  const write = (...line: unknown[]) => void lines.push(line.map((part) => JSON.stringify(part)).join(' '));
  return { lines, log: { info: write, warn: write } as unknown as FastifyBaseLogger };
}

async function open(url: string, log = keptLog().log): Promise<RedisServer> {
  const server = await RedisServer.open(url, 'tests', log);
  onTestFinished(() => server.close());
  return server;
}

async function startRedis(): Promise<RedisProcess> {
  const redis = await RedisProcess.start();
  onTestFinished(() => redis.kill());
  return redis;
}

const ping = (server: RedisServer) => server.ask(async () => [await server.client.ping()]);

// A server that gets no CPU time for 75 ms counts as silent. The test then proves nothing and is repeated.
describe.skipIf(noRedis)(`a Redis server ${needRedis}`, { retry: 3 }, () => {
  test('is logged once per outage, and once when it is back', async () => {
    const redis = await startRedis();
    const { lines, log } = keptLog();
    const server = await open(redis.url, log);
    expect(await ping(server)).toEqual(['PONG']);
    expect(lines).toEqual([]);
    await redis.kill();
    for (let i = 0; i < 20; i += 1) expect(await ping(server)).toBeUndefined();
    expect(lines).toEqual([expect.stringContaining('the server for tests does not answer')]);
    await redis.start();
    await expect.poll(() => ping(server), { timeout: 30_000 }).toEqual(['PONG']);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toContain('the server for tests answers again');
  });

  test('that rejects the password is logged without the password', async () => {
    const redis = await startRedis();
    await redis.command('CONFIG', 'SET', 'requirepass', 'the right one');
    const { lines, log } = keptLog();
    const server = await open(redis.url.replace('//', '//:hunter2@'), log);
    expect(await ping(server)).toBeUndefined();
    expect(lines.join()).toContain('WRONGPASS');
    expect(lines.join()).not.toContain('hunter2');
  });

  test('that is silent gets one command, not one per request, until a new connection responds', async () => {
    const redis = await startRedis();
    const server = await open(redis.url);
    let asked = 0;
    const ask = () => server.ask(async () => ((asked += 1), [await server.client.ping()]));
    redis.freeze();
    for (let i = 0; i < 1_000; i += 1) expect(await ask()).toBeUndefined();
    expect(asked).toBe(1);
    redis.thaw();
    await expect.poll(ask, { timeout: 30_000 }).toEqual(['PONG']);
  });

  test('counts as available when this process was too busy to read the response', async () => {
    const redis = await startRedis();
    const { lines, log } = keptLog();
    const server = await open(redis.url, log);
    const answer = ping(server);
    for (const until = performance.now() + 500; performance.now() < until;);
    expect(await answer).toEqual(['PONG']);
    expect(lines).toEqual([]);
  });

  test('that counted a request and is down when it is reverted leaves the count of this process unchanged', async () => {
    const redis = await startRedis();
    const server = await open(redis.url);
    const limit = new Limit('login', 10, server);
    const use = await limit.count('one');
    expect(use).toMatchObject({ used: 1, isShared: true });
    await redis.kill();
    await limit.giveBack('one', use);
    expect(await limit.count('one')).toMatchObject({ used: 1, isShared: false });
  });

  test('that did not count a request is not told to revert it', async () => {
    const redis = await startRedis();
    const server = await open(redis.url);
    const limit = new Limit('login', 10, server);
    await redis.kill();
    const use = await limit.count('one');
    expect(use).toMatchObject({ used: 1, isShared: false });
    await redis.start();
    await expect.poll(() => ping(server), { timeout: 30_000 }).toEqual(['PONG']);
    await limit.giveBack('one', use);
    expect(await limit.count('one')).toMatchObject({ used: 1, isShared: true });
  });
});

test('a host that accepts connections and never responds delays the start by one second at most, and is tried again', async () => {
  const callers: Socket[] = [];
  const silent = createServer((socket) => void callers.push(socket.on('error', () => undefined))).listen(
    0,
    '127.0.0.1',
  );
  await once(silent, 'listening');
  onTestFinished(() => {
    for (const socket of callers) socket.destroy();
    silent.close();
  });
  const begun = performance.now();
  const server = await open(`redis://127.0.0.1:${(silent.address() as AddressInfo).port}`);
  expect(performance.now() - begun).toBeLessThan(5_000);
  expect(await ping(server)).toBeUndefined();
  await expect.poll(() => callers.length, { timeout: 30_000 }).toBeGreaterThan(1);
});
