import { describe, expect, test } from 'vitest';
import { buildApp } from '../../../src/app.ts';
import { mintToken, sessionPrefix } from '../../../src/access/credentials.ts';
import { undoScopes } from '../../../src/schemas/scopes.ts';
import { startApp } from '../../setup/app.ts';
import { inject, type TestCustomer } from '../../setup/factories.ts';
import { firstLine } from '../../setup/limits.ts';
import { makeSession } from '../../setup/sessions.ts';

const testApp = await startApp();
const { fastify: app, owner, customer } = testApp;

const summary = '/api/ext/customer/summary';
const refusal = { statusCode: 401, message: 'The provided API key is invalid or unauthorized' };

const withHeader = (authorization?: string) =>
  inject(app, 'GET', summary, undefined, authorization === undefined ? {} : { authorization });

describe('a key is rejected with the same 401 when', () => {
  const { length } = 'sda_';
  const broken: Record<string, (caller: TestCustomer) => Promise<string | undefined> | string | undefined> = {
    'there is none': () => undefined,
    'there is no scheme': ({ key }) => key,
    'the scheme is another': ({ key }) => `Bearer ${key}`,
    'it is mistyped': ({ key }) =>
      `X-API-Key ${key.slice(0, length)}${key[length] === 'a' ? 'b' : 'a'}${key.slice(length + 1)}`,
    'it is well-formed and nobody issued it': () => `X-API-Key ${mintToken('sda').reveal()}`,
    'it is a session token': async ({ id }) => `X-API-Key ${(await makeSession(app, id)).token}`,
    'it was revoked': async ({ key, keyId }) => {
      await owner`update api_keys set revoked_at = now() where id = ${keyId}`;
      return `X-API-Key ${key}`;
    },
    'it expired': async ({ key, keyId }) => {
      await owner`update api_keys set expires_at = now() where id = ${keyId}`;
      return `X-API-Key ${key}`;
    },
    'its customer is suspended': async ({ key, id }) => {
      await owner`update customers set status = 'SUSPENDED' where id = ${id}`;
      return `X-API-Key ${key}`;
    },
  };

  test.each(Object.entries(broken))('%s', async (_, header) => {
    const caller = await customer();
    expect((await caller.get('/customer/summary')).status).toBe(200);
    const answer = await withHeader(await header(caller));
    expect(answer.status).toBe(401);
    expect(answer.body).toEqual(refusal);
  });
});

test('a 401 says by its header which credential is expected, and whether the form of the one that was sent is another', async () => {
  const { key } = await customer();
  const told = async (authorization?: string, path = summary) =>
    (await inject(app, 'GET', path, undefined, authorization === undefined ? {} : { authorization })).headers[
      'www-authenticate'
    ];
  for (const [sent, path, expected] of [
    [undefined, summary, 'X-API-Key error="missing"'],
    [`Bearer ${key}`, summary, 'X-API-Key error="wrong_scheme"'],
    ['X-API-Key x', summary, 'X-API-Key'],
    [undefined, '/api/api-key', 'Bearer error="missing"'],
    [`X-API-Key ${key}`, '/api/api-key', 'Bearer error="wrong_scheme"'],
    [`Bearer ${key}`, '/api/api-key', 'Bearer'],
  ] as const)
    expect(await told(sent, path), expected).toBe(expected);
});

test('a key is accepted with the scheme in any case', async () => {
  const { key } = await customer();
  expect((await withHeader(`x-api-KEY ${key}`)).status).toBe(200);
});

test('a key is accepted that was issued with a prefix other than the configured one', async () => {
  const { id, keyId } = await customer();
  const token = mintToken('oldname');
  await owner`update api_keys set key_hash = ${token.hash()} where id = ${keyId}`;
  const answer = await withHeader(`X-API-Key ${token.reveal()}`);
  expect(answer.body.customer.id).toBe(id);
});

test('a key is accepted of a user who was deactivated later', async () => {
  const { key, adminId } = await customer();
  await owner`update users set active = false where id = ${adminId}`;
  expect((await withHeader(`X-API-Key ${key}`)).status).toBe(200);
});

test('a scope that the key lacks is 403 with exactly a status and a fixed text', async () => {
  const caller = await (await customer()).withScopes(['contacts:read']);
  const answer = await caller.get('/customer/summary');
  expect(answer.status).toBe(403);
  expect(answer.body).toEqual({
    statusCode: 403,
    message: 'The user does not have permission to perform this action',
  });
  const scopes = async (path: string, body: object) =>
    String((await caller.post(path, body)).headers['x-required-scope'])
      .split(' ')
      .toSorted()
      .join(' ');
  expect([
    answer.headers['x-required-scope'],
    await scopes('/contacts/batch/upsert', {}),
    await scopes('/service-handler/list', {}),
    await scopes('/imports', { object: 'companies', mode: 'upsert' }),
    await scopes('/events/list', { types: ['company.updated'] }),
  ]).toEqual([
    'customer:read',
    'contacts:create',
    ['payment_prospect:create', 'verify_email:create', 'list_contacts:read', ...undoScopes].toSorted().join(' '),
    expect.stringMatching(/companies:create/),
    'companies:read',
  ]);
});

test('the caller is checked before the body: 401 is sent before a body of 1 MiB has arrived', async () => {
  expect(await firstLine(app, '/api/api-key/generate', {})).toMatch(/^HTTP\/1\.1 401 /);
});

describe('the last use of a key is recorded', () => {
  /** Uses keys on an app that is then closed, so that pending uses are written. */
  async function use(...callers: TestCustomer[]): Promise<void> {
    const own = buildApp(testApp);
    for (const { key } of callers)
      expect((await inject(own, 'GET', summary, undefined, { authorization: `X-API-Key ${key}` })).status).toBe(200);
    await own.close();
  }
  const lastUse = async ({ keyId }: TestCustomer) => {
    const [row] = await owner`
      select last_used_at, now() - last_used_at < interval '20 seconds' as fresh from api_keys where id = ${keyId}`;
    return row!;
  };

  test('in the background, at the latest when the service stops', async () => {
    const callers = await Promise.all([customer(), customer()]);
    expect((await lastUse(callers[0])).last_used_at).toBeNull();
    await use(...callers);
    for (const caller of callers) expect((await lastUse(caller)).fresh).toBe(true);
    const other = await customer();
    await other.get('/customer/summary');
    await expect.poll(async () => (await lastUse(other)).fresh, { timeout: 10_000 }).toBe(true);
  });

  test.each([
    [50, false],
    [61, true],
  ])('once a minute: again %i seconds after the one before: %s', async (seconds, isRecorded) => {
    const caller = await customer();
    await owner`
      update api_keys set last_used_at = now() - make_interval(secs => ${seconds}) where id = ${caller.keyId}`;
    await use(caller);
    expect((await lastUse(caller)).fresh).toBe(isRecorded);
  });
});

describe('a session is rejected with the same 401 when', () => {
  const broken: Record<string, (token: string, userId: string, customerId: string) => Promise<string | undefined>> = {
    'the scheme is another': async (token) => `X-API-Key ${token}`,
    'the token is well-formed and nobody issued it': async () => `Bearer ${mintToken(sessionPrefix).reveal()}`,
    'it expired': async (token, userId) => {
      await owner`update sessions set expires_at = now() where user_id = ${userId}`;
      return `Bearer ${token}`;
    },
    'its user was deactivated': async (token, userId) => {
      await owner`update users set active = false where id = ${userId}`;
      return `Bearer ${token}`;
    },
    'its customer is suspended': async (token, _, customerId) => {
      await owner`update customers set status = 'SUSPENDED' where id = ${customerId}`;
      return `Bearer ${token}`;
    },
  };

  test.each(Object.entries(broken))('%s', async (_, header) => {
    const { id } = await customer();
    const session = await makeSession(app, id);
    expect((await session.call('GET', '/api/api-key')).status).toBe(200);
    const authorization = await header(session.token, session.userId, id);
    const answer = await inject(app, 'GET', '/api/api-key', undefined, authorization ? { authorization } : {});
    expect(answer.status).toBe(401);
    expect(answer.body).toEqual({ statusCode: 401, message: 'The provided session token is invalid or expired' });
  });
});
