import type { FastifyInstance } from 'fastify';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { inject, type Answer } from '../setup/factories.ts';
import { atOnce, freshAddress, inTurn, leftOf } from '../setup/limits.ts';
import { needRedis, noRedis, RedisProcess } from '../setup/redis.ts';
import { makeLogin, password } from '../setup/sessions.ts';

const summary = '/api/ext/customer/summary';
/** Maximum duration of a request (ms): 100 ms for a server that does not respond, and slack for a busy machine. */
const promptMs = 500;

// A server that gets no CPU time for 75 ms counts as silent, and the limits then hold per process, as they should. The
// test then proves nothing and is repeated.
describe.skipIf(noRedis)(`the rate limits of two instances with one server ${needRedis}`, { retry: 3 }, () => {
  let redis: RedisProcess;
  let testApp: TestApp;
  let one: FastifyInstance;
  let other: FastifyInstance;

  beforeAll(async () => {
    redis = await RedisProcess.start();
    testApp = await startApp({
      RATE_LIMITS: 'on',
      RATE_LIMIT_DEFAULT: '6',
      RATE_LIMIT_PROSPECTS: '4',
      RATE_LIMIT_LOGIN: '2',
      RATE_LIMIT_UNAUTHENTICATED: '6',
      TRUST_PROXY: '127.0.0.1',
      REDIS_URL: redis.url,
    });
    [one, other] = [testApp.fastify, buildApp(testApp)];
    await other.ready();
  });
  afterAll(() => other?.close());

  const check = async (app: FastifyInstance): Promise<string> => {
    const { status, body } = await inject(app, 'GET', '/readyz');
    expect([status, body.status]).toEqual([200, 'ready']);
    return body.checks.rate_limits;
  };
  const checks = () => Promise.all([check(one), check(other)]);
  async function recover(): Promise<void> {
    await expect.poll(checks).toEqual(['up', 'up']);
  }

  // Restores the server after each test.
  afterEach(recover);

  /** Sends a request to the two instances alternately. */
  function inTurns(call: (app: FastifyInstance) => Promise<Answer>): () => Promise<Answer> {
    let calls = 0;
    return () => call((calls += 1) % 2 === 1 ? one : other);
  }

  /** Returns a function that sends requests with a new key. */
  async function caller(
    method = 'GET',
    path = summary,
    body?: object,
  ): Promise<(app: FastifyInstance) => Promise<Answer>> {
    const { key } = await testApp.customer();
    return (app) => inject(app, method, path, body, { authorization: `X-API-Key ${key}` });
  }

  /** Checks that every request is answered at once, and that each process enforces the limits alone. */
  async function expectLimitsPerProcess(): Promise<void> {
    for (const app of [one, other]) {
      const call = await caller();
      const begun = performance.now();
      expect(await inTurn(8, () => call(app))).toEqual({ 200: 6, 429: 2 });
      expect((performance.now() - begun) / 8).toBeLessThan(promptMs);
    }
    const call = await caller();
    expect(await inTurn(12, inTurns(call))).toEqual({ 200: 12 });
  }

  async function expectSharedLimits(): Promise<void> {
    const call = await caller();
    expect(await inTurn(8, inTurns(call))).toEqual({ 200: 6, 429: 2 });
  }

  test('hold for both instances together, under each policy of a request', async () => {
    const call = await caller();
    expect(leftOf(await call(one))).toEqual({ default: 5 });
    expect(leftOf(await call(other))).toEqual({ default: 4 });
    expect(await atOnce(20, inTurns(call))).toEqual({ 200: 4, 429: 16 });
    const list = await caller('POST', '/api/ext/prospect/list', {});
    expect(leftOf(await list(one))).toEqual({ default: 5, prospects: 3 });
    expect(await inTurn(4, inTurns(list))).toEqual({ 201: 3, 429: 1 });
  });

  test('hold for failed logins; a successful login reverts its count', async () => {
    const { email } = await makeLogin(testApp.fastify, (await testApp.customer()).id);
    const headers = { 'x-forwarded-for': freshAddress() };
    const login = (secret: string) => (app: FastifyInstance) =>
      inject(app, 'POST', '/api/auth/login', { email, password: secret }, headers);
    expect(await inTurn(4, inTurns(login(password)))).toEqual({ 200: 4 });
    expect(await inTurn(4, inTurns(login('wrong horse battery')))).toEqual({ 401: 2, 429: 2 });
    const values = (await redis.command('KEYS', '*')) as string[];
    expect(values.join()).not.toContain(email);
  });

  test.each<[string, () => unknown, () => unknown]>([
    ['is down', () => redis.kill(), () => redis.start()],
    // Requests in flight when it freezes wait for it, all at the same time.
    ['is frozen', () => redis.freeze(), () => redis.thaw()],
    [
      'accepts no writes',
      () => redis.command('CONFIG', 'SET', 'maxmemory', '1'),
      () => redis.command('CONFIG', 'SET', 'maxmemory', '0'),
    ],
  ])('hold in each process while the server %s, and together when it is back', async (_, hurt, mend) => {
    const call = await caller();
    await call(one);
    await hurt();
    const begun = performance.now();
    expect(await atOnce(6, () => call(one))).toEqual({ 200: 6 });
    expect(performance.now() - begun).toBeLessThan(promptMs);
    await expectLimitsPerProcess();
    await expect.poll(checks, { timeout: 10_000 }).toEqual(['degraded', 'degraded']);
    await mend();
    await recover();
    await expectSharedLimits();
  });
});
