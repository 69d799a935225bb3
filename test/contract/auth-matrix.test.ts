import { beforeAll, describe, expect, test } from 'vitest';
import { scopes, type Scope } from '../../src/schemas/scopes.ts';
import { mintToken, sessionPrefix } from '../../src/access/credentials.ts';
import { startApp } from '../setup/app.ts';
import { inject, unique, type Answer } from '../setup/factories.ts';
import { declaredRoutes, scopesOf, statusesOf, type DeclaredRoute } from './declared.ts';
import { placeOf } from './positions.ts';
import { credentialOf, makeApproval, makeChange, makeRecords, openSession, pathOf } from './records.ts';
import { recordAt, snapshot, unchecked, usesUp, type Records } from './records.ts';
import { bodyFor, bodyWithId, idPositionsOf, isSecond, placeIn, thePath } from './references.ts';

// What makes a key or a session invalid is in test/plugins/credentials/auth.test.ts; here each route proves that it has the check.
// Derived from the app's routes and their schemas: a new route is covered without a change here.
const { documented: routes } = await declaredRoutes();
const keyRoutes = routes.filter(({ access }) => scopesOf(access).length > 0);
const sessionRoutes = routes.filter(({ access }) => 'session' in access);
const adminRoutes = sessionRoutes.filter(({ access }) => 'session' in access && access.session === 'admin');
const publicRoutes = routes.filter(({ access }) => 'public' in access);

const refusedKey = { statusCode: 401, message: 'The provided API key is invalid or unauthorized' };
const refusedSession = { statusCode: 401, message: 'The provided session token is invalid or expired' };
const notPermitted = { statusCode: 403, message: 'The user does not have permission to perform this action' };

type Refusal = { statusCode: number; message: string };
type Headers = Record<string, string>;

const nobodysId = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
const withKey = (key: string) => ({ authorization: `X-API-Key ${key}` });
const withSession = (token: string) => ({ authorization: `Bearer ${token}` });

const app = await startApp();
let own: Records;
/** Of another customer. No call changes them: each is refused. */
let foreign: Records;

beforeAll(async () => {
  [own, foreign] = [await makeRecords(app), await makeRecords(app)];
  rows = await snapshot(app);
});

const shared = new Map<Scope | undefined, Promise<Records>>();

/** Returns new records for a call that uses some of them up. The others share theirs. */
function recordsFor(route: DeclaredRoute, scope?: Scope): Promise<Records> {
  if (usesUp(route)) return makeRecords(app, scope);
  const kind = route.url.includes('/imports') ? scope : undefined;
  const made = shared.get(kind) ?? makeRecords(app, kind);
  shared.set(kind, made);
  return made;
}

/** All positions of a request that refer to a record. */
const referencesOf = (route: DeclaredRoute): string[] =>
  idPositionsOf(route).filter((pointer) => !unchecked.has(placeOf(pointer)));

/** The only route that answers an unknown id with 200. */
const isNullWhenUnknown = ({ method, url }: DeclaredRoute): boolean =>
  url === '/api/ext/company/:id' && (method === 'GET' || method === 'HEAD');

const references = routes.flatMap((route) =>
  referencesOf(route).map((pointer) => ({ route, pointer, name: route.name })),
);

/** Returns the response to a call of the route by the records' customer, without the parts that differ between any two responses. */
async function callWithId(
  route: DeclaredRoute,
  records: Records,
  pointer: string,
  id: string,
): Promise<{ status: number; headers: object; bytes: string }> {
  const body = bodyWithId(route, records, pointer, id);
  const answer = await app.fastify.inject({
    method: route.method as 'GET',
    url: pathOf(route, records, pointer === thePath ? id : undefined),
    headers: credentialOf(route, records),
    ...(body === undefined ? {} : { payload: body as object }),
  });
  const headers = { ...answer.headers, date: undefined, 'x-request-id': undefined };
  return { status: answer.statusCode, headers, bytes: answer.payload };
}

/** What is stored. Of the tests that follow only one another's calls stand between two of it: they come first. */
let rows: Awaited<ReturnType<typeof snapshot>>;

describe.each(references)('$name with an id at $pointer', ({ route, pointer }) => {
  test("of another customer's record or an unknown one is the same 404, and nothing is written", async () => {
    const call = (id: string) => callWithId(route, own, pointer, id);
    const unknown = await call(nobodysId);
    expect(await call(recordAt(foreign, placeIn(route, pointer)))).toEqual(unknown);
    const before = rows;
    rows = await snapshot(app);
    expect(rows).toEqual(before);
    expect(unknown.status).toBe(isNullWhenUnknown(route) ? 200 : 404);
    if (pointer === thePath || route.method === 'HEAD') return;
    expect(JSON.parse(unknown.bytes)).toMatchObject({ code: 'not_found', errors: [{ path: pointer }] });
  });
});

/** Sends a valid request with the given parts replaced. */
const call = (route: DeclaredRoute, headers: Headers, body?: unknown): Promise<Answer> =>
  inject(app.fastify, route.method, pathOf(route, own), body, headers);

/** Sends a valid request that refers to records of a customer created for this call. */
const callFor = (route: DeclaredRoute, records: Records, headers: Headers): Promise<Answer> =>
  inject(app.fastify, route.method, pathOf(route, records), bodyFor(route, records), headers);

/** Checks that a response is exactly this refusal and reveals nothing more. HEAD has no body. */
function expectRefusal(route: DeclaredRoute, answer: Answer, refusal: Refusal): void {
  expect(answer.status).toBe(refusal.statusCode);
  expect(answer.body).toEqual(route.method === 'HEAD' ? '' : refusal);
}

/** Sends a body of which nothing is valid: the credential is checked first. */
const callUnread = (route: DeclaredRoute, headers: Headers): Promise<Answer> =>
  call(route, { ...headers, 'content-type': 'application/x-www-form-urlencoded' }, '{"');

const success = (route: DeclaredRoute): number[] => statusesOf(route).success.map(Number);

describe.each(keyRoutes)('$name', (route) => {
  const needed = scopesOf(route.access) as Scope[];

  test('rejects a request without a key, and a session, whatever the body', async () => {
    for (const headers of [{}, withSession(own.session)])
      expectRefusal(route, await callUnread(route, headers), refusedKey);
  });

  test('rejects a key with every other scope, whatever the body', async () => {
    const { key } = await own.customer.withScopes(scopes.filter((scope) => !needed.includes(scope)));
    expectRefusal(route, await callUnread(route, withKey(key)), notPermitted);
  });

  const needsAll = 'allScopes' in route.access;
  // Which scopes may see a job depends on its type.
  const isOfJobs = route.url.includes('/service-handler/');
  const alternatives = isOfJobs && route.method !== 'HEAD' ? needed : [...new Set([needed[0]!, needed.at(-1)!])];
  const enough = (needsAll ? [needed] : alternatives.map((scope) => [scope])).map((some) => ({
    some,
    name: some.join(' and '),
  }));

  test.each(enough)(
    'accepts a key with only $name, names a change only where that is declared, and answers again alike with the same Idempotency-Key',
    async ({ some }) => {
      const records = await recordsFor(route, some[0]);
      // A webhook needs the scopes to read what it sends.
      const more: Scope[] = some[0] === 'webhooks:manage' ? ['contacts:read', 'companies:read'] : [];
      const { key, keyId } = await records.customer.withScopes([...some, ...more]);
      const seen = { ...records, job: records.jobs[some[0]!] ?? records.job };
      // A key sees its own calls only.
      if (route.url.includes('/approval')) seen.approval = await makeApproval(app.fastify, records.customer, keyId);
      if (/changes|undo/.test(route.url)) seen.change = await makeChange(records.customer, some[0]);
      const headers = { ...withKey(key), 'idempotency-key': unique('once') };
      const { status, body, headers: told } = await callFor(route, seen, headers);
      expect(success(route)).toContain(status);
      expect(route.isChange ? undefined : told['x-change-id']).toBeUndefined();
      if (!('422' in route.responses)) return;
      const again = await callFor(route, seen, headers);
      expect(again).toMatchObject({ status, body, headers: { 'idempotency-replayed': 'true' } });
      expect(again.headers['x-change-id']).toBe(told['x-change-id']);
    },
  );
});

describe.each(keyRoutes.filter(({ access }) => 'allScopes' in access))('$name', (route) => {
  test.each(scopesOf(route.access) as Scope[])('rejects a key that lacks only %s', async (scope) => {
    const { key } = await own.customer.withScopes(scopes.filter((one) => one !== scope));
    expectRefusal(route, await call(route, withKey(key)), notPermitted);
  });
});

describe.each(sessionRoutes)('$name', (route) => {
  test('rejects a request without a session, and a key, whatever the body', async () => {
    for (const headers of [{}, withKey(own.customer.key)])
      expectRefusal(route, await callUnread(route, headers), refusedSession);
  });

  test('accepts the session of an admin', async () => {
    const records = await recordsFor(route);
    expect(success(route)).toContain((await callFor(route, records, credentialOf(route, records))).status);
  });
});

describe.each(adminRoutes)('$name', (route) => {
  test('rejects a member, whatever the body', async () => {
    const member = withSession(await openSession(app, own.customer.id, own.user));
    expectRefusal(route, await callUnread(route, member), notPermitted);
  });
});

describe.each(publicRoutes)('$name', (route) => {
  test('answers without a credential, and with any credential', async () => {
    for (const headers of [{}, withKey(mintToken('sda').reveal()), withSession(mintToken(sessionPrefix).reveal())])
      expect(success(route)).toContain((await callFor(route, own, headers)).status);
  });
});

/** The last position of each body: all that it can refer to is sent, and the second elements of its arrays. */
const lastReferences = references.filter(
  ({ name, pointer }, index) => pointer !== thePath && index === references.findLastIndex((one) => one.name === name),
);

test.each(lastReferences)("$name with all ids of the customer's own records succeeds", async ({ route, pointer }) => {
  const records = await recordsFor(route);
  const id = recordAt(records, placeIn(route, pointer), isSecond(pointer));
  expect(success(route)).toContain((await callWithId(route, records, pointer, id)).status);
});
