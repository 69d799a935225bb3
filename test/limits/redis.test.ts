import type { FastifyBaseLogger } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import { RedisServer } from '../../src/access/rate-limits.ts';
import { needRedis, noRedis, RedisProcess } from '../setup/redis.ts';

// A server that gets no CPU time for 75 ms counts as silent. The test then proves nothing and is repeated.
test.skipIf(noRedis)(
  `a Redis server is logged once per outage, once when it is back, and never with its password ${needRedis}`,
  { retry: 3 },
  async () => {
    const redis = await RedisProcess.start();
    onTestFinished(() => redis.kill());
    const lines: string[] = [];
    const write = (...line: unknown[]) => void lines.push(line.map((part) => JSON.stringify(part)).join(' '));
    const open = async (url: string) => {
      const server = await RedisServer.open(url, 'tests', { info: write, warn: write } as unknown as FastifyBaseLogger);
      onTestFinished(() => server.close());
      return () => server.ask(async () => [await server.client.ping()]);
    };
    const ping = await open(redis.url);
    expect([await ping(), lines]).toEqual([['PONG'], []]);
    await redis.kill();
    for (let i = 0; i < 20; i += 1) expect(await ping()).toBeUndefined();
    expect(lines).toEqual([expect.stringContaining('the server for tests does not answer')]);
    await redis.start();
    await expect.poll(ping, { timeout: 30_000 }).toEqual(['PONG']);
    expect(lines.splice(0)).toHaveLength(2);

    await redis.command('CONFIG', 'SET', 'requirepass', 'the right one');
    const refused = await open(redis.url.replace('//', '//:hunter2@'));
    expect(await refused()).toBeUndefined();
    expect(lines.join()).toContain('WRONGPASS');
    expect(lines.join()).not.toContain('hunter2');
  },
);
