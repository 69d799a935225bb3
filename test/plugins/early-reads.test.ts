import { expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import type { Database, SharedDatabase } from '../../src/database/db.ts';
import type { Requester } from '../../src/credentials/requester.ts';
import { startApp } from '../setup/app.ts';
import { contactBody, inject, make, type TestCustomer } from '../setup/factories.ts';

const { fastify: app, config, db, catalog, owner, customer } = await startApp();

/** Builds the app on a database that notes its look-ups, and whose checks of keys can be held back. */
function watchedApp(environment: Partial<typeof config> = {}) {
  const lookups: Requester[] = [];
  const held = { checks: Promise.resolve() };
  const watched = (given: Database, requester: Requester): Database => ({
    ...given,
    lookup: (work) => (lookups.push(requester), given.lookup(work)),
  });
  const database: SharedDatabase = {
    ...db,
    for: (requester, source) => watched(db.for(requester, source), { ...requester }),
    credentials: async (work) => (await held.checks, db.credentials(work)),
  };
  return { lookups, held, watched: buildApp({ config: { ...config, ...environment }, db: database, catalog }) };
}

/** Creates a customer with a contact. Returns a function that reads the contact through an app. */
async function withContact() {
  const caller = await customer();
  const path = `/contacts/${await make(caller, '/contacts', contactBody())}`;
  const readBy = ({ key }: Pick<TestCustomer, 'key'>, through = app, of = path) =>
    inject(through, 'GET', `/api/ext${of}`, undefined, { authorization: `X-API-Key ${key}` });
  return { caller, path, readBy };
}

test('a record is asked for while its key is checked, once a request with the key was accepted', async () => {
  const { caller, readBy } = await withContact();
  const { watched, lookups, held } = watchedApp();
  expect((await readBy(caller, watched)).status).toBe(200);
  const { promise, resolve } = Promise.withResolvers<void>();
  held.checks = promise;
  const answer = readBy(caller, watched);
  await expect.poll(() => lookups.length).toBe(2);
  resolve();
  expect((await answer).body).toEqual((await readBy(caller)).body);
  expect(lookups.map(({ customerId }) => customerId)).toEqual([caller.id, caller.id]);
  await watched.close();
});

const refusals: Record<string, (caller: TestCustomer) => Promise<unknown>> = {
  'was revoked': ({ keyId }) => owner`update api_keys set revoked_at = now() where id = ${keyId}`,
  expired: ({ keyId }) => owner`update api_keys set expires_at = now() where id = ${keyId}`,
  'was rotated': ({ keyId }) => owner`update api_keys set key_hash = sha256(key_hash) where id = ${keyId}`,
  'lost the scope': ({ keyId }) => owner`update api_keys set permissions = array['products:read'] where id = ${keyId}`,
  'belongs to a suspended customer': ({ id }) => owner`update customers set status = 'SUSPENDED' where id = ${id}`,
};

test.each(Object.entries(refusals))('a key that %s gets the answer that a new process gives', async (_, spoil) => {
  const { caller, readBy } = await withContact();
  expect((await readBy(caller)).status).toBe(200);
  await spoil(caller);
  const { watched } = watchedApp();
  const [known, unknown] = [await readBy(caller), await readBy(caller, watched)];
  expect([401, 403]).toContain(known.status);
  expect(known.body).toEqual(unknown.body);
  await watched.close();
});

test('a request past its rate limit is 429, and so is one for a record of somebody else', async () => {
  const { caller, readBy } = await withContact();
  const { path: foreign } = await withContact();
  const { watched } = watchedApp({ RATE_LIMITS: 'on', RATE_LIMIT_DEFAULT: 2 });
  expect((await readBy(caller, watched)).status).toBe(200);
  expect((await readBy(caller, watched, foreign)).status).toBe(404);
  expect((await readBy(caller, watched)).body.code).toBe('rate_limited');
  expect((await readBy(caller, watched, foreign)).body.code).toBe('rate_limited');
  await watched.close();
});

test('a key that is refused again and again causes a limited number of early reads', async () => {
  const { caller, readBy } = await withContact();
  const { watched, lookups } = watchedApp();
  expect((await readBy(caller, watched)).status).toBe(200);
  await owner`update api_keys set revoked_at = now() where id = ${caller.keyId}`;
  for (let i = 0; i < 100; i += 1) expect((await readBy(caller, watched)).status).toBe(401);
  expect(lookups.length).toBe(1 + 64);
  await owner`update api_keys set revoked_at = null where id = ${caller.keyId}`;
  expect((await readBy(caller, watched)).status).toBe(200);
  expect((await readBy(caller, watched)).status).toBe(200);
  expect(lookups.length).toBe(1 + 64 + 2);
  await watched.close();
});

test('an invalid id is 400 and is not looked up', async () => {
  const { caller, readBy } = await withContact();
  const { watched, lookups } = watchedApp();
  expect((await readBy(caller, watched)).status).toBe(200);
  expect((await readBy(caller, watched, '/contacts/1')).status).toBe(400);
  expect(lookups.length).toBe(1);
  await watched.close();
});

test('records that are asked for at once are read by shared statements, each for its own request', async () => {
  const { caller, path, readBy } = await withContact();
  const others = await Promise.all(Array.from({ length: 19 }, () => make(caller, '/contacts', contactBody())));
  const unknown = '/contacts/0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  const paths = [
    path.toUpperCase().replace('CONTACTS', 'contacts'),
    path,
    unknown,
    ...others.map((id) => `/contacts/${id}`),
  ];
  const { watched, lookups } = watchedApp();
  expect((await readBy(caller, watched)).status).toBe(200);
  const answers = await Promise.all(paths.map((of) => readBy(caller, watched, of)));
  const expected = [path, path, undefined, ...others].map((id) => id?.replace('/contacts/', ''));
  expect(answers.map(({ body }) => body.id)).toEqual(expected);
  expect(lookups.length).toBe(1 + 2 + 1); // the last asks whether the unknown one was merged
  await watched.close();
});

test('customers do not share statements, and nobody gets a record of another', async () => {
  const [ours, theirs] = await Promise.all([withContact(), withContact()]);
  const { watched, lookups } = watchedApp();
  for (const { caller, readBy } of [ours, theirs]) expect((await readBy(caller, watched)).status).toBe(200);
  const answers = await Promise.all([
    ours.readBy(ours.caller, watched),
    theirs.readBy(theirs.caller, watched),
    ours.readBy(ours.caller, watched, theirs.path),
    theirs.readBy(theirs.caller, watched, ours.path),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 404, 404]);
  const byCustomer = lookups.slice(2).map(({ customerId }) => customerId);
  expect(byCustomer.slice(0, 2)).toEqual([ours.caller.id, theirs.caller.id]);
  // Each asks whether what it did not find was merged.
  expect(byCustomer.slice(2).toSorted()).toEqual([ours.caller.id, theirs.caller.id].toSorted());
  await watched.close();
});

test('a change is seen by the next request', async () => {
  const { caller, path, readBy } = await withContact();
  for (const first_name of ['Ada', 'Grace', 'Hedy']) {
    expect((await caller.call('PATCH', path, { first_name })).status).toBe(200);
    expect((await readBy(caller)).body.first_name).toBe(first_name);
  }
});

test.each(['/contacts', '/company', '/products', '/opportunities', '/pipelines'])(
  'GET %s/:id takes part',
  async (path) => {
    const caller = await customer();
    const { watched, lookups, held } = watchedApp();
    const id = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
    const headers = { authorization: `X-API-Key ${caller.key}` };
    await inject(watched, 'GET', `/api/ext${path}/${id}`, undefined, headers);
    const { promise, resolve } = Promise.withResolvers<void>();
    held.checks = promise;
    const answer = inject(watched, 'GET', `/api/ext${path}/${id}`, undefined, headers);
    await expect.poll(() => lookups.length).toBe(2);
    resolve();
    expect((await answer).status).toBe(path === '/company' ? 200 : 404);
    await watched.close();
  },
);
