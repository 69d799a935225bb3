import { Ajv2020 } from 'ajv/dist/2020.js';
import * as ajvFormats from 'ajv-formats';
import { expect, test } from 'vitest';
import { documentedFormats, formats, type Format } from '../../src/schemas/formats.ts';
import { appWithoutDatabase, declaredRoutes, type Json } from './declared.ts';
import { badFormats } from './mistakes.ts';
import { isReadByCode, propertiesOf, sampleBody, wholeBody } from './positions.ts';

// The OpenAPI document describes requests in another form than the validator. These tests compare the two. The document
// is read like a stranger reads it: with the standard formats, and without our own.
const app = appWithoutDatabase();
const document = (await app.inject('/openapi.json')).json<{ paths: Record<string, Record<string, Json>> }>();
await app.close();
const ajv = new Ajv2020({ strict: false, allErrors: false }).addSchema(document, 'api');
ajvFormats.default.default(ajv);

const routes = (await declaredRoutes()).documented.filter(
  ({ method, body }) => method !== 'HEAD' && Object.keys((body?.['properties'] ?? {}) as Json).length > 0,
);

/** Any id will do: the document tells the shape of a body, not which records exist. */
const known = (_place: string, schema: Json): unknown =>
  schema['format'] === 'uuid' ? '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b' : undefined;

/** Dates that no pattern can tell from others. */
const unpatterned = new Set(['0000-01-01T00:00:00Z', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00']);

test.each(routes)(
  'the documented body of $name accepts what the service accepts',
  ({ url, method, body: declared }) => {
    const body = bodyOf(declared!);
    const path = url
      .replace(/:(\w+)/g, '{$1}')
      .replaceAll('~', '~0')
      .replaceAll('/', '~1');
    const pointer = `/paths/${path}/${method.toLowerCase()}/requestBody/content/application~1json/schema`;
    const accepts = ajv.compile({ $ref: `api#${encodeURI(pointer)}` });
    for (const one of [sampleBody(body, known), wholeBodyOf(body)])
      expect(accepts(one), `${JSON.stringify(one)} ${ajv.errorsText(accepts.errors)}`).toBe(true);
    expect(accepts({ ...(sampleBody(body, known) as Json), unknown: 1 })).toBe(false);
  },
);

/** Returns the schema of a body, with the items of a batch as the document describes them. */
function bodyOf(body: Json): Json {
  const { 'x-batch-items': item, ...items } = propertiesOf(body)['items'] ?? {};
  return item === undefined
    ? body
    : { ...body, properties: { ...propertiesOf(body), items: { ...items, items: item } } };
}

/** Returns a body with every field that is not read by code. */
function wholeBodyOf(schema: Json): unknown {
  const fields = Object.entries(schema['properties'] as Record<string, Json>).filter(([, one]) => !isReadByCode(one));
  return wholeBody({ ...schema, properties: Object.fromEntries(fields) }, known);
}

test.each(Object.keys(formats))('the documented pattern of the format %s agrees with the format', (name) => {
  const accepts = ajv.compile({ type: 'string', ...documentedFormats[name] });
  const codes = Array.from({ length: 26 ** 3 }, (_, n) =>
    [n / 676, (n / 26) % 26, n % 26].map((letter) => String.fromCharCode(65 + Math.floor(letter))).join(''),
  );
  const texts = [...badFormats[name]!, ...codes, ...codes.map((code) => code.slice(1).toLowerCase()), ...valid[name]!];
  const differing = texts.filter((text) => accepts(text) !== formats[name as Format](text) && !unpatterned.has(text));
  expect(differing).toEqual([]);
  expect(valid[name]!.filter((text) => !formats[name as Format](text))).toEqual([]);
});

/** Valid texts, by format. */
const valid: Record<string, string[]> = {
  uuid: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', '0197A1B2-C3D4-7E5F-8A9B-0C1D2E3F4A5B'],
  email: ['Ada.Lovelace+x@Example.co.uk', "o'neil@example.com", 'a@b.c'],
  'feed-start': ['start', 'now', '2024-02-29T23:59:59Z'],
  'date-time': ['2024-02-29T23:59:59Z', '2026-01-01t00:00:00.123456789z', '2026-01-01T00:00:00-23:59'],
  domain: ['acme.de', 'https://www.Müller.de/x?y#z', 'http://ACME.co.uk:8080', 'xn--mller-kva.de'],
  name: ['x', ' x ', '𝒳'.repeat(255), `\n${'x'.repeat(255)}\u00a0`, 'a b'],
  'key-name': ['x', ' x ', '𝒳'.repeat(120), `\n${'x'.repeat(120)}`],
  country: ['', 'GB', 'gb', 'De'],
  currency: ['EUR', 'usd', 'Xau'],
};
