import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { formats } from '../../src/schemas/formats.ts';
import { appWithoutDatabase, declaredRoutes, scopesOf, type Json } from './declared.ts';

interface Operation {
  summary: string;
  description: string;
  tags: string[];
  security: Record<string, string[]>[];
  'x-required-scopes'?: string[];
  'x-scopes-needed'?: 'one' | 'all';
  responses: Record<string, { description: string } | { $ref: string }>;
  requestBody?: { content: Record<string, { schema: Json; example?: unknown; examples?: unknown }> };
}

const app = appWithoutDatabase();
const document = (await app.inject('/openapi.json')).json<{
  openapi: string;
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Json>; responses: Record<string, { description: string; headers: Json }> };
}>();
await app.close();

const routes = (await declaredRoutes()).documented.filter(({ method }) => method !== 'HEAD');
const operationOf = (url: string, method: string): Operation | undefined =>
  document.paths[url.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
const root = join(import.meta.dirname, '..', '..');

test('the OpenAPI document is OpenAPI 3.1 without findings of a public linter (Redocly, recommended rules)', async () => {
  const lint = promisify(execFile)(
    join(root, 'node_modules', '.bin', 'redocly'),
    ['lint', join('test', 'contract', 'openapi.json'), '--extends=recommended', '--format=json'],
    { cwd: root, env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' } },
  );
  const { stdout } = await lint.catch((error: { stdout: string }) => error);
  expect(document.openapi).toMatch(/^3\.1\./);
  expect(JSON.parse(stdout)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 }, problems: [] });
});

test.each(routes)(
  'the OpenAPI document describes the summary, access and every status of $name',
  ({ url, method, access, responses }) => {
    const operation = operationOf(url, method)!;
    expect(operation.summary).toMatch(/^[A-Z].*[^.]$/);
    expect(operation.description).toMatch(/^[A-Z][\s\S]{20,}[.]$/);
    expect(operation.tags).toHaveLength(1);
    expect(Object.keys(operation.responses)).toEqual(Object.keys(responses));
    for (const response of Object.values(operation.responses)) {
      const { description } = '$ref' in response ? responseNamed(response.$ref) : response;
      expect(description).toMatch(/\S/);
      expect(description).not.toBe('Default Response');
    }
    const scopes = scopesOf(access);
    const credential = 'session' in access ? [{ session: [] }] : [{ apiKey: [] }];
    expect(operation.security).toEqual('public' in access ? [] : credential);
    expect(operation['x-required-scopes'] ?? []).toEqual(scopes);
    const needed = 'anyScope' in access ? 'one' : 'all';
    expect(operation['x-scopes-needed']).toBe(scopes.length > 0 ? needed : undefined);
    const named = scopes.map((scope) => `\`${scope}\``);
    for (const text of 'session' in access ? ['Needs a session'] : named) expect(operation.description).toContain(text);
  },
);

test('the OpenAPI document declares when to try again, and what remains of the rate limits', () => {
  const { RateLimited, Unavailable, NotFound } = document.components.responses;
  const limits = ['ratelimit-policy', 'ratelimit'];
  expect(Object.keys(NotFound!.headers)).toEqual(['x-request-id', ...limits]);
  expect(Object.keys(RateLimited!.headers)).toEqual(['x-request-id', ...limits, 'retry-after']);
  expect(Object.keys(Unavailable!.headers)).toEqual(['x-request-id', ...limits, 'retry-after']);
});

test('the OpenAPI document shows an example of every body', () => {
  const media = routes.flatMap(({ name, url, method }) =>
    Object.values(operationOf(url, method)!.requestBody?.content ?? {}).map((one) => ({ name, ...one })),
  );
  expect(media.length).toBeGreaterThan(0);
  expect(media.flatMap(({ name, example, examples }) => ((example ?? examples) ? [] : [name]))).toEqual([]);
});

test('the OpenAPI document shows only examples that are valid', () => {
  const ajv = new Ajv2020({ strict: false, formats }).addSchema(document, 'api');
  const shown = examplesIn(document);
  expect(shown.length).toBeGreaterThan(10);
  for (const { pointer, example } of shown) {
    const validate = ajv.compile({ $ref: `api#${encodeURI(pointer)}` });
    expect(validate(example), `${pointer}: ${JSON.stringify(example)} ${ajv.errorsText(validate.errors)}`).toBe(true);
  }
});

const responseNamed = (reference: string) =>
  document.components.responses[reference.replace('#/components/responses/', '')]!;

interface Shown {
  /** The schema of the example. */
  pointer: string;
  example: unknown;
}

/** Returns the examples inside schemas and those beside the schemas of bodies. */
function examplesIn(node: unknown, pointer = ''): Shown[] {
  if (typeof node !== 'object' || node === null) return [];
  const { examples, example, schema } = node as { examples?: unknown; example?: unknown; schema?: unknown };
  const own = Array.isArray(examples) ? examples.map((one: unknown) => ({ pointer, example: one })) : [];
  const beside = schema && example !== undefined ? [{ pointer: `${pointer}/schema`, example }] : [];
  const token = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1');
  return [
    ...own,
    ...beside,
    ...Object.entries(node).flatMap(([key, value]) =>
      key === 'examples' || key === 'example' ? [] : examplesIn(value, `${pointer}/${token(key)}`),
    ),
  ];
}
