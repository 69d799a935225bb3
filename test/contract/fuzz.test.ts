import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import * as ajvFormats from 'ajv-formats';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { declaredRoutes, type DeclaredRoute, type Json } from './declared.ts';
import { knownOf, makeRecords, openSession, recordAt, snapshot, type Records } from './records.ts';
import { brokenTexts, mutantsOf } from './mutants.ts';
import { sampleBody, wholeBody } from './positions.ts';
import { seed } from '../setup/seed.ts';

// Random requests: valid ones, the examples of the OpenAPI document, ones that differ from these in one or two places, and
// texts that are not JSON. `make fuzz` sends 20,000.
const requests = Number(process.env['FUZZ_REQUESTS'] ?? 700);

interface Operation {
  requestBody?: { content: Record<string, { example?: unknown; examples?: Record<string, { value: unknown }> }> };
  responses: Record<string, { $ref?: string; content?: Record<string, { schema?: Json }> }>;
}

const app = await startApp();
const document = (await app.fastify.inject('/openapi.json')).json<{
  paths: Record<string, Record<string, Operation>>;
}>();
const ajv = new Ajv2020({ strict: false, logger: false }).addSchema(document, 'api');
ajvFormats.default.default(ajv);

/** Returns the part of the document that a reference such as `#/components/schemas/Contact` names. */
const resolve = (ref: string): Json =>
  ref
    .split('/')
    .slice(1)
    .reduce((part, key) => part[key.replaceAll('~1', '/').replaceAll('~0', '~')] as Json, document as unknown as Json);

const compiled = new Map<string, ValidateFunction>();
function validatorAt(pointer: string): ValidateFunction {
  const known = compiled.get(pointer) ?? ajv.compile({ $ref: `api#${encodeURI(pointer)}` });
  compiled.set(pointer, known);
  return known;
}

const routes = (await declaredRoutes()).documented.filter(({ method }) => method !== 'HEAD');
const share = Math.ceil(requests / routes.length);

const pathOfRoute = ({ url }: DeclaredRoute): string => url.replace(/:(\w+)/g, '{$1}');
const escaped = (text: string): string => text.replaceAll('~', '~0').replaceAll('/', '~1');
const pointerOf = (route: DeclaredRoute): string =>
  `/paths/${escaped(pathOfRoute(route))}/${route.method.toLowerCase()}`;
const operationOf = (route: DeclaredRoute): Operation =>
  document.paths[pathOfRoute(route)]![route.method.toLowerCase()]!;

/** A random request to one route. */
interface Attempt {
  id: string;
  /** The body as JSON text or as text that is not JSON; undefined without a body. */
  text: string | undefined;
  headers: Record<string, string>;
}

const strangeIds = [
  '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
  'x',
  '..%2f..%2fetc',
  '%00',
  '%ff',
  "1'--",
  'a'.repeat(300),
];
const strangeHeaders: Record<string, string>[] = [
  { 'idempotency-key': 'k'.repeat(256) },
  { 'idempotency-key': '\u00e9' },
  { 'if-match': '*' },
  { 'if-match': '"x", W/"y"' },
  { 'content-type': 'text/plain' },
  { 'content-type': 'application/json; charset=latin1' },
  { 'content-encoding': 'gzip' },
  { accept: 'image/png' },
];

/** Returns random requests to a route: valid ones, and such as differ from them in some places. */
function attemptsAt(route: DeclaredRoute, records: Records, count: number): Attempt[] {
  const ids = Object.values(records).filter(
    (value): value is string => typeof value === 'string' && value.length === 36,
  );
  const body = fc.constantFrom(...validBodies(route, records));
  const mutant = body.chain(mutantsOf);
  const asText = (one: fc.Arbitrary<unknown>) =>
    one.map((value) => (value === undefined ? undefined : JSON.stringify(value)));
  const text = fc.oneof<fc.MaybeWeightedArbitrary<string | undefined>[]>(
    { weight: 2, arbitrary: asText(body) },
    { weight: 4, arbitrary: asText(mutant) },
    { weight: 3, arbitrary: asText(mutant.chain(mutantsOf)) },
    { weight: 1, arbitrary: brokenTexts },
  );
  const own = route.url.includes(':id') ? recordAt(records, route.url) : '';
  const id = fc.oneof({ weight: 6, arbitrary: fc.constant(own) }, fc.constantFrom(...ids, ...strangeIds));
  const headers = fc.oneof({ weight: 9, arbitrary: fc.constant({}) }, fc.constantFrom(...strangeHeaders));
  return fc.sample(fc.record({ id, text, headers }), { seed, numRuns: count });
}

/** Returns the smallest body, one with every field, and the examples of the document. */
function validBodies(route: DeclaredRoute, records: Records): unknown[] {
  if (!route.body) return [undefined];
  const { example, examples = {} } = operationOf(route).requestBody?.content['application/json'] ?? {};
  const shown = [example, ...Object.values(examples).map(({ value }) => value)].filter((one) => one !== undefined);
  const known = knownOf(records, route);
  return [sampleBody(route.body, known), wholeBody(route.body, known), ...shown];
}

/** Sends an attempt, with the key or the session of the customer. */
const send = (route: DeclaredRoute, { customer }: Records, session: string, { id, text, headers }: Attempt) =>
  app.fastify.inject({
    method: route.method as 'GET',
    url: route.url.replace(':id', id),
    headers: {
      authorization: 'session' in route.access ? `Bearer ${session}` : `X-API-Key ${customer.key}`,
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(text === undefined ? {} : { payload: text }),
  });

/** Returns a fault of a response: a status or a body that the document does not declare. */
function faultOf(route: DeclaredRoute, status: number, type: string, body: string): string | undefined {
  // Until a worker has counted, and none is running.
  if (status === 503 && body.includes('These duplicates are being counted')) return undefined;
  if (status >= 500) return `status ${status}`;
  const declared = operationOf(route).responses[String(status)];
  if (!declared) return `undeclared status ${status}`;
  const content = (declared.$ref ? (resolve(declared.$ref) as unknown as typeof declared) : declared).content;
  const media = type.split(';')[0]!;
  if (!content) return body === '' ? undefined : 'a body, where none is declared';
  if (!content[media]) return `undeclared type ${type}`;
  if (media !== 'application/json') return undefined;
  const at = declared.$ref ? declared.$ref.slice(1) : `${pointerOf(route)}/responses/${status}`;
  const validate = validatorAt(`${at}/content/application~1json/schema`);
  return validate(JSON.parse(body)) ? undefined : ajv.errorsText(validate.errors);
}

/** Whether the document refuses the body. A batch names its invalid items in its results. */
function isRefusedByDocument(route: DeclaredRoute, { text }: Attempt): boolean {
  const isDescribed = operationOf(route).requestBody?.content['application/json'] && !route.url.includes('/batch/');
  if (!text || !isDescribed) return false;
  return !validatorAt(`${pointerOf(route)}/requestBody/content/application~1json/schema`)(JSON.parse(text));
}

const show = ({ id, text, headers }: Attempt, body: string): string =>
  `  ${id} ${JSON.stringify(headers)} ${text?.slice(0, 600)}\n  ${body.slice(0, 600)}`;

test(`random requests (SEED=${seed}): no failure, no undeclared request or response, and a refusal changes nothing`, async () => {
  const faults: string[] = [];
  const statuses: Record<string, number> = {};
  for (const route of routes) {
    const records = await makeRecords(app);
    const open = () => openSession(app, records.customer.id, records.customer.adminId);
    let session = await open();
    const stored = () => snapshot(app, records.customer.id);
    let before = await stored();
    for (const attempt of attemptsAt(route, records, share)) {
      const { statusCode, headers, body } = await send(route, records, session, attempt);
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
      const after = await stored();
      const changed = Object.keys(before).filter((table) => statusCode >= 400 && before[table] !== after[table]);
      before = after;
      const found = [
        faultOf(route, statusCode, headers['content-type'] ?? '', body),
        changed.length > 0 ? `changes ${changed.join(', ')}` : undefined,
        statusCode < 300 && isRefusedByDocument(route, attempt) ? 'accepts what the document refuses' : undefined,
      ];
      for (const fault of found)
        if (fault) faults.push(`${route.name}: ${statusCode} ${fault}\n${show(attempt, body)}`);
      if ('session' in route.access && statusCode < 300) {
        session = await open(); // a logout ends it, and so does a new password
        before = await stored();
      }
    }
  }
  process.stdout.write(`fuzz: ${JSON.stringify(statuses)}\n`);
  expect(faults.join('\n')).toBe('');
}, 1_800_000);
