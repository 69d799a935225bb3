import { Readable } from 'node:stream';
import { beforeAll, describe, expect, test } from 'vitest';
import { findUnstorableText } from '../../src/text/json.ts';
import { compile } from '../../src/validation/validator.ts';
import { startApp } from '../setup/app.ts';
import { declaredRoutes, statusesOf, type DeclaredRoute, type Json } from './declared.ts';
import { badFormats, outOfBounds, Raw, toJson, wrongTypes } from './mistakes.ts';
import { isReadByCode, positionsOf, propertiesOf, replaced, requiredOf, sampleBody, typesOf } from './positions.ts';
import { credentialOf, knownOf, makeRecords, pathOf, usesUp, type Records } from './records.ts';

// Derived from the routes and their schemas, like the auth matrix.
// A route that takes a file has no schema of its body.
const { documented, hidden } = await declaredRoutes();
const routes = documented.filter(({ method, body }) => method !== 'HEAD' && body);
const withMembers = routes.filter(({ body }) => Object.keys(propertiesOf(body!)).length > 0);

const app = await startApp();
let records: Records;

beforeAll(async () => {
  records = await makeRecords(app);
});

interface ErrorAnswer {
  statusCode: number;
  error: string;
  code: string;
  message: string;
  errors?: { path: string; message: string }[];
}

interface Answer {
  status: number;
  headers: Json;
  body: ErrorAnswer | undefined;
}

const json = { 'content-type': 'application/json' };

/** Sends raw bytes with a credential that the route accepts, referring to the customer's own records. */
async function send(
  route: DeclaredRoute,
  payload?: string | Buffer | Readable,
  headers: Record<string, string> = json,
  about: { records: Records; id?: string } = { records },
): Promise<Answer> {
  const answer = await app.fastify.inject({
    method: route.method as 'GET',
    url: pathOf(route, about.records, about.id),
    headers: { ...credentialOf(route, about.records), ...headers },
    ...(payload === undefined ? {} : { payload }),
  });
  return {
    status: answer.statusCode,
    headers: answer.headers,
    body: String(answer.headers['content-type']).includes('json') ? answer.json() : undefined,
  };
}

/** Checks that a response is the error body of the contract, with faults at exactly these positions. */
function expectFaults({ status, body }: Answer, paths: string[], what?: string): void {
  expect(status, what).toBe(400);
  const { errors = [], message, ...rest } = body!;
  expect(rest, what).toEqual({ statusCode: 400, error: 'Bad Request', code: 'validation_failed' });
  expect(errors.map(({ path }) => path).toSorted(), what).toEqual(paths.toSorted());
  for (const text of [message, ...errors.map((one) => one.message)]) expect(text, what).toMatch(/^\S.{3,499}$/s);
  for (const fault of errors) expect(Object.keys(fault), what).toEqual(['path', 'message']);
  expect(JSON.stringify(body), what).not.toMatch(/SQLSTATE|postgres|\.[jt]s:|node_modules|column|violates/i);
}

const expectSuccess = (route: DeclaredRoute, { status }: Answer): void =>
  expect(statusesOf(route).success.map(Number)).toContain(status);

function expectRefusal({ status, body }: Answer, code: string, statusCode: number, error: string, what?: string): void {
  expect(status, what).toBe(statusCode);
  expect(body, what).toEqual({ statusCode, error, code, message: expect.stringMatching(/\S/) });
}

/** Reads the records when it is called, because they do not exist yet when the tests are declared. */
const known =
  (route: DeclaredRoute): ReturnType<typeof knownOf> =>
  (place, schema) =>
    knownOf(records, route)(place, schema);
const bodyTo = (route: DeclaredRoute, pointer = ''): unknown => sampleBody(route.body!, known(route), pointer);

/** The required fields of a body. */
const missing = (route: DeclaredRoute): string[] => requiredOf(route.body!).map((name) => `/${name}`);

const route = routes.find(({ name }) => name === 'POST /api/ext/contacts')!;

test('a body of another content type is rejected', async () => {
  const others = [
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'application/merge-patch+json',
    'text/json',
    'json',
    '*/*',
    'application/json, text/plain',
    undefined,
  ];
  for (const type of others)
    expectUnsupported(await send(route, '{}', type === undefined ? {} : { 'content-type': type }), type);
});

test('a body of every spelling of the content type is accepted', async () => {
  for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset="utf-8"'])
    expectFaults(await send(route, '{"unknown":1}', { 'content-type': type }), [...missing(route), '/unknown'], type);
});

test('a body that is larger than the limit is rejected without Content-Length, too', async () => {
  const payload = Readable.from(['{"unknown":1}'.padEnd(route.bodyLimit), ' ']);
  expectRefusal(await send(route, payload), 'payload_too_large', 413, 'Payload Too Large');
});

test('a body in a request whose id is not a UUID, or cannot be decoded, is not reached', async () => {
  const one = routes.find(({ name }) => name === 'PATCH /api/ext/contacts/:id')!;
  for (const id of badFormats['uuid']!)
    expectFaults(await send(one, undefined, {}, { records, id: encodeURIComponent(id) }), ['/id'], id);
  for (const id of ['%00', '%20', '%ff', '%zz', '%', '%E0%A4%A', 'x'.repeat(5_000), '..%2f..', '%2e%2e'])
    // 405: the last one matches the parent path, which may support other methods.
    expect([400, 404, 405], id).toContain((await send(one, undefined, {}, { records, id })).status);
});

const expectUnsupported = (answer: Answer, type: string | undefined) =>
  expectRefusal(answer, 'unsupported_media_type', 415, 'Unsupported Media Type', type);

describe.each(routes)('$name', (route) => {
  test('takes one object of JSON, up to its limit', async () => {
    for (const payload of ['{', '[]', '{"__proto__":{"a":1}}', '{"a":{"constructor":{"prototype":{}}}}'])
      expectFaults(await send(route, payload), [''], payload);
    expectUnsupported(await send(route, '{}', { 'content-type': 'text/plain' }), 'text/plain');
    const tooLarge = await send(route, '{}', { ...json, 'content-length': String(route.bodyLimit + 1) });
    expectRefusal(tooLarge, 'payload_too_large', 413, 'Payload Too Large');
    // As many bytes as that, of one route for each limit.
    const isFirst = routes.find(({ bodyLimit }) => bodyLimit === route.bodyLimit) === route;
    const most = '{"unknown":1}'.padEnd(isFirst ? route.bodyLimit : 0);
    expectFaults(await send(route, most), [...missing(route), '/unknown']);
    if (route.url.includes(':id')) expectFaults(await send(route, undefined, {}, { records, id: 'x' }), ['/id']);
  });

  test('treats an empty body as {}', async () => {
    const expected = missing(route);
    const isRefused = expected.length > 0;
    const answer = await send(route, '', json, {
      records: usesUp(route) && !isRefused ? await makeRecords(app) : records,
    });
    if (expected.length > 0) expectFaults(answer, expected);
    // An activity needs one of several members.
    else if (route.name === 'POST /api/ext/activities') expectFaults(answer, ['/title', '/contact_id']);
    else expectSuccess(route, answer);
  });

  test('reports all faults at once, whatever their kind', async () => {
    const members = Object.entries(propertiesOf(route.body!));
    const wrong = Object.fromEntries(members.map(([name, schema]) => [name, wrongTypes(schema)[0]![1]]));
    expectFaults(
      await send(route, toJson({ ...wrong, unknown: 1, more: { b: null } })),
      [...Object.keys(wrong), 'unknown', 'more'].map((name) => `/${name}`),
    );
    const unkeepable = new Raw(String.raw`"\u0000"`);
    expectFaults(await send(route, toJson({ unknown: 1, other: unkeepable })), [
      ...missing(route),
      '/unknown',
      '/other',
    ]);
  });
});

describe.each(withMembers)('the schema of $name', (route) => {
  // A filter that takes one id or several names its fault at both places; test/routes/opportunities.test.ts covers it.
  const isIdOrIds = (pointer: string) => /^\/filters\/\w+_id(\/0)?$/.test(pointer);
  const positions = positionsOf(route.body!).filter(({ pointer }) => pointer !== '' && !isIdOrIds(pointer));

  /** Checks that the validator of the route finds faults at exactly these positions. */
  function expectFaultsIn(body: unknown, paths: string[], what: string): void {
    const given: unknown = JSON.parse(toJson(body));
    const unstorable = findUnstorableText(given).map(({ path }) => path);
    const found =
      unstorable.length > 0
        ? unstorable
        : compile(route.body!)
            .faultsOf(given)
            .map(({ path }) => path);
    expect(found, what).toEqual(paths);
  }

  test('rejects every value of a wrong type or out of bounds, with its position', () => {
    for (const { pointer, schema } of positions)
      for (const [what, value] of [...wrongTypes(schema), ...outOfBounds(schema, sampleOf(route, pointer, schema))])
        expectFaultsIn(replaced(bodyTo(route, pointer), pointer, value), [pointer], `${pointer}: ${what}`);
  });

  test('reports every missing and every unknown property, at every depth', () => {
    for (const { pointer, schema } of positionsOf(route.body!)) {
      for (const name of requiredOf(schema)) {
        const without = (object: Json) => Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
        expectFaultsIn(replaced(bodyTo(route, pointer), pointer, without), [`${pointer}/${name}`], `no ${name}`);
      }
      if (schema['additionalProperties'] !== false || isIdOrIds(pointer)) continue;
      const body = replaced(bodyTo(route, pointer), pointer, (object: Json) => ({ ...object, unknown: null }));
      expectFaultsIn(body, [`${pointer}/unknown`], `${pointer}/unknown`);
    }
  });

  test('has a limit for every text, number, array and free-form object', () => {
    const unbounded = positionsOf(route.body!).filter(({ schema }) => !isBounded(schema));
    expect(unbounded.map(({ pointer }) => pointer)).toEqual([]);
  });
});

test('nobody can send more than 16 KiB without a credential', () => {
  const open = [...documented, ...hidden].filter(({ access }) => 'public' in access);
  expect(open.length).toBeGreaterThan(0);
  expect(open.filter(({ bodyLimit }) => bodyLimit > 16 * 1024)).toEqual([]);
});

/** Returns a value for a position that its mistakes can be built from: an array with an element. */
function sampleOf(route: DeclaredRoute, pointer: string, schema: Json): unknown {
  const along = schema['items'] && !isReadByCode(schema) ? `${pointer}/0` : pointer;
  const body = bodyTo(route, along);
  return pointer
    .split('/')
    .slice(1)
    .reduce((node, token) => (node as Json)[token], body);
}

function isBounded(schema: Json): boolean {
  const types = typesOf(schema);
  if (schema['enum'] || 'const' in schema || isReadByCode(schema)) return true;
  if (types.includes('string')) return 'maxLength' in schema || schema['format'] === 'uuid';
  if (types.includes('array')) return 'maxItems' in schema;
  if (types.includes('object')) return schema['additionalProperties'] === false || 'maxProperties' in schema;
  return types.every((type) => ['boolean', 'null'].includes(type) || ('minimum' in schema && 'maximum' in schema));
}
