import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { formats } from '../../src/schemas/formats.ts';
import { appWithoutDatabase, declaredRoutes, scopesOf, type Json } from './declared.ts';

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  security: Record<string, string[]>[];
  responses: Record<string, { description: string }>;
  requestBody?: { content: Record<string, { schema: Json; example?: unknown; examples?: unknown }> };
}

const app = appWithoutDatabase();
const document = (await app.inject('/openapi.json')).json<{
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
}>();
await app.close();

const routes = (await declaredRoutes()).documented.filter(({ method }) => method !== 'HEAD');
const operationOf = (url: string, method: string): Operation | undefined =>
  document.paths[url.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
const root = join(import.meta.dirname, '..', '..');

describe('the OpenAPI document', () => {
  test('is serialised once, however often and under whichever path it is requested', async () => {
    const asked = appWithoutDatabase();
    await asked.ready();
    const kept: object = asked.swagger();
    let times = 0;
    const toJSON = () => {
      times += 1;
      return { ...kept };
    };
    Object.defineProperty(kept, 'toJSON', { value: toJSON });
    const bodies: unknown[] = [];
    for (const path of ['/openapi.json', '/docs/json', '/openapi.json', '/docs/json'])
      bodies.push((await asked.inject(path)).json());
    await asked.close();
    expect(bodies).toEqual(Array(4).fill(document));
    expect(times).toBe(1);
  });

  test('is OpenAPI 3.1 without findings of a public linter (Redocly, recommended rules)', async () => {
    const lint = promisify(execFile)(
      join(root, 'node_modules', '.bin', 'redocly'),
      ['lint', join('test', 'contract', 'openapi.json'), '--extends=recommended', '--format=json'],
      { cwd: root, env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' } },
    );
    const { stdout } = await lint.catch((error: { stdout: string }) => error);
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(JSON.parse(stdout)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 }, problems: [] });
  });

  test('contains exactly the documented routes', () => {
    const operations = Object.entries(document.paths).flatMap(([path, one]) =>
      Object.keys(one).map((method) => `${method} ${path}`),
    );
    expect(operations.length).toBe(routes.length);
  });

  test('has a unique id for every operation', () => {
    const names = routes.map(({ url, method }) => operationOf(url, method)?.operationId);
    expect(names).toEqual([...new Set(names)]);
  });

  test.each(routes)('describes the summary, access and every status of $name', ({ url, method, access, responses }) => {
    const operation = operationOf(url, method)!;
    expect(operation.summary).toMatch(/\S/);
    expect(operation.tags).toHaveLength(1);
    expect(Object.keys(operation.responses)).toEqual(Object.keys(responses));
    for (const { description } of Object.values(operation.responses)) expect(description).not.toBe('Default Response');
    const keys =
      'allScopes' in access ? [{ apiKey: access.allScopes }] : scopesOf(access).map((scope) => ({ apiKey: [scope] }));
    expect(operation.security).toEqual('session' in access ? [{ session: [] }] : keys);
  });

  test('shows an example of every body', () => {
    const media = routes.flatMap(({ name, url, method }) =>
      Object.values(operationOf(url, method)!.requestBody?.content ?? {}).map((one) => ({ name, ...one })),
    );
    expect(media.length).toBeGreaterThan(0);
    expect(media.flatMap(({ name, example, examples }) => ((example ?? examples) ? [] : [name]))).toEqual([]);
  });

  test('shows only examples that are valid', () => {
    const ajv = new Ajv2020({ strict: false, formats }).addSchema(document, 'api');
    const shown = examplesIn(document);
    expect(shown.length).toBeGreaterThan(10);
    for (const { pointer, example } of shown) {
      const validate = ajv.compile({ $ref: `api#${encodeURI(pointer)}` });
      expect(validate(example), `${pointer}: ${JSON.stringify(example)} ${ajv.errorsText(validate.errors)}`).toBe(true);
    }
  });
});

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
