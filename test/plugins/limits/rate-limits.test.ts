import { describe, expect, onTestFinished, test } from 'vitest';
import { buildApp } from '../../../src/app.ts';
import { parseConfig } from '../../../src/process/config.ts';
import type { SharedDatabase } from '../../../src/database/db.ts';
import { mintToken, sessionPrefix } from '../../../src/access/credentials.ts';
import { declaredRoutes } from '../../contract/declared.ts';
import { openSession } from '../../contract/records.ts';
import { startApp } from '../../setup/app.ts';
import { inject, type Answer } from '../../setup/factories.ts';
import { atOnce, firstLine, freshAddress, inTurn, leftOf, limitsOf } from '../../setup/limits.ts';
import { makeSession } from '../../setup/sessions.ts';

const environment = {
  RATE_LIMITS: 'on',
  RATE_LIMIT_DEFAULT: '7',
  RATE_LIMIT_PROSPECTS: '4',
  RATE_LIMIT_JOBS: '3',
  RATE_LIMIT_KEYS: '5',
  RATE_LIMIT_UNAUTHENTICATED: '5',
  TRUST_PROXY: '127.0.0.1',
};
const testApp = await startApp(environment);
const { fastify: app, config, db, catalog } = testApp;
const { documented } = await declaredRoutes();

const nobody = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
const summary = '/api/ext/customer/summary';

/** Reads the account summary, or another path, from an address, with or without a credential. */
const callFrom = (address: string, authorization?: string, at = app, path = summary): Promise<Answer> =>
  inject(at, 'GET', path, undefined, { 'x-forwarded-for': address, ...(authorization ? { authorization } : {}) });
const unknownKey = () => `X-API-Key ${mintToken('sda').reveal()}`;

/** Builds the app with other limits. */
const appWith = (more: Record<string, string>) => {
  const own = buildApp({
    config: parseConfig({ ...environment, LOG_LEVEL: 'trace', OVERLOAD_MS: '0', ...more }),
    db,
    catalog,
  });
  onTestFinished(() => own.close());
  return own;
};

/** The 429 response of a policy, as in the contract. */
function expectRefusal(answer: Answer, policy: string): void {
  expect(answer.status).toBe(429);
  expect(answer.body).toEqual({
    statusCode: 429,
    error: 'Too Many Requests',
    code: 'rate_limited',
    message: `Too many requests: the rate limit "${policy}" is used up`,
  });
  const seconds = Number(answer.headers['retry-after']);
  expect(seconds).toBeGreaterThanOrEqual(1);
  expect(seconds).toBeLessThanOrEqual(60);
}

describe('requests with a key', () => {
  test('get the remaining requests in headers, as structured fields', async () => {
    const customer = await testApp.customer();
    const first = await customer.get('/customer/summary');
    expect(first.headers['ratelimit-policy']).toBe('"default";q=7;w=60');
    expect(first.headers['ratelimit']).toBe('"default";r=6;t=60');
    const second = await customer.post('/prospect/list', {});
    expect(second.headers['ratelimit-policy']).toBe('"default";q=7;w=60, "prospects";q=4;w=60');
    expect(second.headers['ratelimit']).toMatch(/^"default";r=5;t=\d+, "prospects";r=3;t=60$/);
  });

  test('get these headers with errors too, and count whatever error they get', async () => {
    const customer = await testApp.customer();
    const refused: [number, Answer][] = [
      [404, await customer.get(`/contacts/${nobody}`)],
      [400, await customer.post('/contacts', '{"')],
      [415, await customer.post('/contacts', 'a=b', { 'content-type': 'text/plain' })],
    ];
    expect(refused.map(([, { status }]) => status)).toEqual(refused.map(([status]) => status));
    expect(refused.map(([, answer]) => leftOf(answer)['default'])).toEqual([6, 5, 4]);
  });

  test('above the limit are rejected until the window ends, with the remaining time', async () => {
    const customer = await testApp.customer();
    expect(await inTurn(8, () => customer.get('/customer/summary'))).toEqual({ 200: 7, 429: 1 });
    const refused = await customer.get('/customer/summary');
    expectRefusal(refused, 'default');
    expect(limitsOf(refused)).toMatchObject({ default: { q: 7, w: 60, r: 0 } });
    expect(limitsOf(refused)['default']!.t).toBe(Number(refused.headers['retry-after']));
  });

  test('are limited per key, not per customer', async () => {
    const customer = await testApp.customer();
    const other = await customer.withScopes(['customer:read']);
    expect(await inTurn(8, () => customer.get('/customer/summary'))).toEqual({ 200: 7, 429: 1 });
    expect((await other.get('/customer/summary')).status).toBe(200);
  });

  test('are rejected by the first policy of the table that is exceeded', async () => {
    const customer = await testApp.customer();
    const list = () => customer.post('/prospect/list', {});
    expect(await inTurn(4, list)).toEqual({ 201: 4 });
    const refused = await list();
    expectRefusal(refused, 'prospects');
    expect(leftOf(refused)).toEqual({ default: 2, prospects: 0 });
    expect(await inTurn(2, () => customer.get('/customer/summary'))).toEqual({ 200: 2 });
    expectRefusal(await list(), 'default');
  });

  test('are rejected before the scope is checked and the body is read', async () => {
    const narrow = await (await testApp.customer()).withScopes(['contacts:read']);
    expect(await inTurn(8, () => narrow.get('/customer/summary'))).toEqual({ 403: 7, 429: 1 });
    expect(await firstLine(app, '/api/ext/contacts/list', { authorization: `X-API-Key ${narrow.key}` })).toMatch(
      /^HTTP\/1\.1 429 /,
    );
  });

  test('are not counted on routes that need no key', async () => {
    const { key } = await testApp.customer();
    const headers = { authorization: `X-API-Key ${key}` };
    for (const [method, path, status] of [
      ['GET', '/healthz', 200],
      ['GET', '/nothing', 404],
      ['PUT', '/api/ext/contacts', 405],
    ] as const) {
      const answer = await inject(app, method, path, undefined, headers);
      expect([answer.status, limitsOf(answer)]).toEqual([status, {}]);
    }
    expect(leftOf(await inject(app, 'GET', summary, undefined, headers))).toEqual({ default: 6 });
  });
});

describe('each route', () => {
  test('counts a request under the policies that it documents', async () => {
    const policies = ['DEFAULT', 'PROSPECTS', 'JOBS', 'BULK', 'KEYS'];
    const own = appWith(Object.fromEntries(policies.map((policy) => [`RATE_LIMIT_${policy}`, '1000'])));
    const { key, id, adminId } = await testApp.customer();
    for (const route of documented.filter(({ access }) => !('public' in access))) {
      const authorization = route.policies.includes('keys')
        ? `Bearer ${await openSession(testApp, id, adminId)}`
        : `X-API-Key ${key}`;
      const answer = await inject(own, route.method, route.url.replace(':id', nobody), undefined, { authorization });
      expect([route.name, Object.keys(limitsOf(answer))]).toEqual([route.name, route.policies]);
      expect(Object.keys(route.responses), route.name).toContain('429');
    }
  });
});

describe('requests with a session', () => {
  test('are counted per user under `keys`, in all sessions of the user together', async () => {
    const { id } = await testApp.customer();
    const [one, other] = [await makeSession(app, id), await makeSession(app, id)];
    const list = () => one.call('GET', '/api/api-key');
    const second = await openSession(testApp, id, one.userId);
    const again = () => inject(app, 'GET', '/api/api-key', undefined, { authorization: `Bearer ${second}` });
    expect(leftOf(await list())).toEqual({ keys: 4 });
    expect(leftOf(await again())).toEqual({ keys: 3 });
    expect(await inTurn(3, list)).toEqual({ 200: 3 });
    const refused = await list();
    expectRefusal(refused, 'keys');
    expect(leftOf(refused)).toEqual({ keys: 0 });
    expectRefusal(await one.call('POST', '/api/auth/logout'), 'keys');
    expect(leftOf(await other.call('GET', '/api/api-key'))).toEqual({ keys: 4 });
  });
});

test.each<[string, (revoked: string) => string | undefined, string?]>([
  ['no credential', () => undefined],
  ['a key that nobody issued', unknownKey],
  ['a revoked key', (revoked) => `X-API-Key ${revoked}`],
  ['an unknown session', () => `Bearer ${mintToken(sessionPrefix).reveal()}`, '/api/api-key'],
])(
  'an address that sends too many requests without a valid credential gets 429 instead of 401 for %s, and is served with a valid key',
  async (_, credential, path) => {
    const address = freshAddress();
    const [revoked, valid] = [await testApp.customer(), await testApp.customer()];
    await testApp.owner`update api_keys set revoked_at = now() where id = ${revoked.keyId}`;
    const call = () => callFrom(address, credential(revoked.key), app, path);
    expect(await inTurn(5, call)).toEqual({ 401: 5 });
    const refused = await call();
    expectRefusal(refused, 'unauthenticated');
    expect(limitsOf(refused)).toEqual({});
    expect(refused.headers).not.toHaveProperty('www-authenticate');
    expect((await callFrom(freshAddress(), credential(revoked.key), app, path)).status).toBe(401);
    expect(await inTurn(7, () => callFrom(address, `X-API-Key ${valid.key}`))).toEqual({ 200: 7 });
  },
);

test('an address that sends too many requests without a valid credential is identified by its IPv6 /64, or by its IPv4 address in any form', async () => {
  let host = 0;
  expect(await inTurn(6, () => callFrom(`2001:db8::${(host += 1)}`))).toEqual({ 401: 5, 429: 1 });
  expect((await callFrom('2001:db8:0:1::1')).status).toBe(401);
  expect(await inTurn(6, () => callFrom('::ffff:203.0.113.9'))).toEqual({ 401: 5, 429: 1 });
  expect((await callFrom('203.0.113.9')).status).toBe(429);
});

test('an address that sends too many requests without a valid credential has few look-ups in flight, and a valid key is looked up among them', async () => {
  // Look-ups of one event loop round are one statement, so this many look-ups are at least this many statements.
  let statements = 0;
  const counted: SharedDatabase = { ...db, credentials: (work) => ((statements += 1), db.credentials(work)) };
  const own = buildApp({ config, db: counted, catalog });
  onTestFinished(() => own.close());
  const address = freshAddress();
  const { key } = await testApp.customer();
  await inTurn(5, () => callFrom(address, undefined, own));
  const storm = atOnce(64, () => callFrom(address, unknownKey(), own));
  const valid = callFrom(address, `X-API-Key ${key}`, own);
  expect((await valid).status).toBe(200);
  expect(await storm).toEqual({ 429: 64 });
  expect(statements).toBeGreaterThanOrEqual(64 / 8);
});

test('an address that sends too many requests without a valid credential is refused before the body is read', async () => {
  const address = freshAddress();
  await inTurn(5, () => callFrom(address));
  expect(await firstLine(app, '/api/ext/contacts', { 'x-forwarded-for': address })).toMatch(/^HTTP\/1\.1 429 /);
});

test.each([
  ['a limit of 0 is off', { RATE_LIMIT_DEFAULT: '0', RATE_LIMIT_UNAUTHENTICATED: '0' }, { prospects: 3 }],
  ['every limit is off with RATE_LIMITS=off', { RATE_LIMITS: 'off' }, {}],
])('%s', async (_what, more, left) => {
  const own = appWith(more);
  const { key } = await testApp.customer();
  const headers = { authorization: `X-API-Key ${key}` };
  expect(await inTurn(20, () => inject(own, 'GET', summary, undefined, headers))).toEqual({ 200: 20 });
  expect(limitsOf(await inject(own, 'GET', summary, undefined, headers))).toEqual({});
  expect(leftOf(await inject(own, 'POST', '/api/ext/prospect/list', {}, headers))).toEqual(left);
  expect(await inTurn(20, () => inject(own, 'GET', summary))).toEqual({ 401: 20 });
});
