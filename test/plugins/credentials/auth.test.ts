import { describe, expect, test } from 'vitest';
import { buildApp } from '../../../src/app.ts';
import { openDatabase, type Database, type SharedDatabase } from '../../../src/database/db.ts';
import { mintToken, sessionPrefix } from '../../../src/access/credentials.ts';
import { undoScopes } from '../../../src/schemas/scopes.ts';
import { startApp } from '../../setup/app.ts';
import { inject, type TestCustomer } from '../../setup/factories.ts';
import { firstLine } from '../../setup/limits.ts';
import { makeSession } from '../../setup/sessions.ts';

const { fastify: app, config, db, catalog, owner, customer } = await startApp();

const summary = '/api/ext/customer/summary';
const refusal = { statusCode: 401, message: 'The provided API key is invalid or unauthorized' };

const withHeader = (authorization?: string) =>
  inject(app, 'GET', summary, undefined, authorization === undefined ? {} : { authorization });

describe('a key is rejected with the same 401 when', () => {
  const { length } = 'sda_';
  const broken: Record<string, (caller: TestCustomer) => Promise<string | undefined> | string | undefined> = {
    'there is none': () => undefined,
    'the header is empty': () => '',
    'the scheme stands alone': () => 'X-API-Key',
    'there is no scheme': ({ key }) => key,
    'the scheme is another': ({ key }) => `Bearer ${key}`,
    'something follows it': ({ key }) => `X-API-Key ${key} x`,
    'it is mistyped': ({ key }) =>
      `X-API-Key ${key.slice(0, length)}${key[length] === 'a' ? 'b' : 'a'}${key.slice(length + 1)}`,
    'it is cut': ({ key }) => `X-API-Key ${key.slice(0, -1)}`,
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
  const keys = '/api/api-key';
  expect(await Promise.all([told(), told(`Bearer ${key}`), told(key), told('X-API-Key x'), told('X-API-Key')])).toEqual(
    [
      'X-API-Key error="missing"',
      'X-API-Key error="wrong_scheme"',
      'X-API-Key error="wrong_scheme"',
      'X-API-Key',
      'X-API-Key',
    ],
  );
  expect(
    await Promise.all([told(undefined, keys), told(`X-API-Key ${key}`, keys), told(`Bearer ${key}`, keys)]),
  ).toEqual(['Bearer error="missing"', 'Bearer error="wrong_scheme"', 'Bearer']);
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

test('a key is accepted again when its customer is resumed', async () => {
  const { id, get } = await customer();
  await owner`update customers set status = 'SUSPENDED' where id = ${id}`;
  expect((await get('/customer/summary')).status).toBe(401);
  await owner`update customers set status = 'OK' where id = ${id}`;
  expect((await get('/customer/summary')).status).toBe(200);
});

test('a scope that the key lacks is 403 with exactly a status and a fixed text', async () => {
  const caller = await (await customer()).withScopes(['contacts:read']);
  const answer = await caller.get('/customer/summary');
  expect(answer.status).toBe(403);
  expect(answer.body).toEqual({
    statusCode: 403,
    message: 'The user does not have permission to perform this action',
  });
  const scopes = async (path: string, body: object) => (await caller.post(path, body)).headers['x-required-scope'];
  expect([
    answer.headers['x-required-scope'],
    await scopes('/contacts/batch/upsert', {}),
    await scopes('/service-handler/list', {}),
    await scopes('/imports', { object: 'companies', mode: 'upsert' }),
    await scopes('/events/list', { types: ['company.updated'] }),
  ]).toEqual([
    'customer:read',
    'contacts:create',
    `payment_prospect:create verify_email:create list_contacts:read ${undoScopes.join(' ')}`,
    expect.stringMatching(/companies:create/),
    'companies:read',
  ]);
});

test('the caller is checked before the body: 401 is sent before a body of 1 MiB has arrived', async () => {
  expect(await firstLine(app, '/api/api-key/generate', {})).toMatch(/^HTTP\/1\.1 401 /);
});

describe('the look-up', () => {
  /** Builds the same app on a database that counts its queries. */
  function counting() {
    const counts = { lookup: 0, transaction: 0 };
    const counting = (given: Database): Database => ({
      ...given,
      lookup: (work) => ((counts.lookup += 1), given.lookup(work)),
      transaction: (work) => ((counts.transaction += 1), given.transaction(work)),
    });
    const counted: SharedDatabase = {
      ...db,
      ...counting(db),
      for: (requester, source) => counting(db.for(requester, source)),
      credentials: (work) => ((counts.lookup += 1), db.credentials(work)),
    };
    return { counts, counted: buildApp({ config, db: counted, catalog }) };
  }

  test('is skipped for a key that fails its checksum', async () => {
    const { counts, counted } = counting();
    const authorization = `X-API-Key ${mintToken('sda').reveal().slice(0, -1)}`;
    expect((await inject(counted, 'GET', summary, undefined, { authorization })).status).toBe(401);
    expect(counts.lookup).toBe(0);
    await counted.close();
  });

  test('that fails because the database is down is 503 with Retry-After, for valid and invalid keys', async () => {
    const lost = openDatabase(config, 'postgres://nobody@127.0.0.1:1/nothing');
    const cutOff = buildApp({ config, db: lost, catalog });
    const authorization = `X-API-Key ${mintToken('sda').reveal()}`;
    const answer = await inject(cutOff, 'GET', summary, undefined, { authorization });
    expect(answer.status).toBe(503);
    expect(answer.body.code).toBe('unavailable');
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    await cutOff.close();
    await lost.close();
  });

  describe('records when a key was last used', () => {
    /** Uses keys on an app that is then closed, so that pending uses are written. */
    async function use(callers: TestCustomer[]): Promise<number> {
      const { counts, counted } = counting();
      for (const { key } of callers) {
        const headers = { authorization: `X-API-Key ${key}` };
        expect((await inject(counted, 'GET', summary, undefined, headers)).status).toBe(200);
      }
      await counted.close();
      return counts.transaction;
    }
    const lastUse = async ({ keyId }: TestCustomer) => {
      const [row] = await owner`
        select last_used_at, now() - last_used_at < interval '20 seconds' as fresh from api_keys where id = ${keyId}`;
      return row!;
    };

    test('in the background, at the latest when the service stops, many keys in one statement', async () => {
      const callers = await Promise.all([customer(), customer(), customer()]);
      expect((await lastUse(callers[0])).last_used_at).toBeNull();
      expect(await use(callers)).toBe(1);
      for (const caller of callers) expect((await lastUse(caller)).fresh).toBe(true);
      const other = await customer();
      await other.get('/customer/summary');
      await expect.poll(async () => (await lastUse(other)).fresh, { timeout: 10_000 }).toBe(true);
    });

    test.each([
      [50, false],
      [61, true],
    ])('a use %i seconds before is followed by another record: %s', async (seconds, isRecorded) => {
      const caller = await customer();
      await owner`
        update api_keys set last_used_at = now() - make_interval(secs => ${seconds}) where id = ${caller.keyId}`;
      expect(await use([caller])).toBe(isRecorded ? 1 : 0);
      expect((await lastUse(caller)).fresh).toBe(isRecorded);
    });
  });
});

test('a route that is unknown, or known with another method, needs no credential: 404 and 405', async () => {
  expect((await inject(app, 'GET', '/api/ext/nowhere')).status).toBe(404);
  expect((await inject(app, 'DELETE', summary)).status).toBe(405);
});

describe('a session is rejected with the same 401 when', () => {
  const broken: Record<string, (token: string, userId: string, customerId: string) => Promise<string | undefined>> = {
    'there is no token': async () => undefined,
    'the scheme is another': async (token) => `X-API-Key ${token}`,
    'the token is cut': async (token) => `Bearer ${token.slice(0, -1)}`,
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
