import { Ajv2020 } from 'ajv/dist/2020.js';
import * as ajvFormats from 'ajv-formats';
import * as fc from 'fast-check';
import type { TSchema } from '@sinclair/typebox';
import { describe, expect, test } from 'vitest';
import { CompanyExport, ContactExport } from '../../src/schemas/files.ts';
import { compile } from '../../src/validation/validator.ts';
import { companyFilterFields, CompanyFilters } from '../../src/schemas/companies.ts';
import { contactFilterFields, ContactFilters } from '../../src/schemas/contacts.ts';
import { operatorsOf, OrderBy, type FilterFields } from '../../src/schemas/filters.ts';
import { documentedFormats, formats, type Format } from '../../src/schemas/formats.ts';
import { prospectOrderFields } from '../../src/schemas/prospects.ts';
import { appWithoutDatabase, declaredRoutes, type DeclaredRoute, type Json } from './declared.ts';
import { badFormats, outOfBounds, Raw, wrongTypes } from './mistakes.ts';
import { isReadByCode, positionsOf, propertiesOf, replaced, sampleBody, wholeBody, typesOf } from './positions.ts';

// The OpenAPI document describes requests in another form than the validator. These tests compare the two. The document
// is read like a stranger reads it: with the standard formats, and without our own.
const app = appWithoutDatabase();
const document = (await app.inject('/openapi.json')).json<{ paths: Record<string, Record<string, Json>> }>();
await app.close();
const ajv = new Ajv2020({ strict: false, allErrors: false }).addSchema(document, 'api');
ajvFormats.default.default(ajv);

const acceptorOf = (pointer: string) => ajv.compile({ $ref: `api#${pointer}` });
const component = (name: string) => acceptorOf(`/components/schemas/${name}`);

const routes = (await declaredRoutes()).documented.filter(
  ({ method, body }) => method !== 'HEAD' && Object.keys((body?.['properties'] ?? {}) as Json).length > 0,
);

/** Any id will do: the document tells the shape of a body, not which records exist. */
const known = (_place: string, schema: Json): unknown =>
  schema['format'] === 'uuid' ? '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b' : undefined;

/** What only code can check: texts that the database cannot store, and dates that no pattern can tell from others. */
const onlyCode = /NUL character|lone|too fine/;
const unpatterned = new Set(['0000-01-01T00:00:00Z', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00']);

describe.each(routes)('the documented body of $name', (route) => {
  const path = route.url
    .replace(/:(\w+)/g, '{$1}')
    .replaceAll('~', '~0')
    .replaceAll('/', '~1');
  const pointer = `/paths/${path}/${route.method.toLowerCase()}/requestBody/content/application~1json/schema`;
  const accepts = acceptorOf(encodeURI(pointer));
  const schema = bodyOf(route);
  const positions = positionsOf(schema).filter(({ schema }) => !isReadByCode(schema));

  test('accepts what the service accepts', () => {
    for (const body of [sampleBody(schema, known), wholeBodyOf(schema)])
      expect(accepts(body), `${JSON.stringify(body)} ${ajv.errorsText(accepts.errors)}`).toBe(true);
  });

  test('rejects what the service rejects', () => {
    for (const { pointer: at, schema: part } of positions) {
      const body = sampleBody(schema, known, at);
      const sample = at
        .split('/')
        .slice(1)
        .reduce<unknown>((node, token) => (node as Json)[token], body);
      const here = positions.filter(({ pointer }) => pointer === at).flatMap(({ schema }) => typesOf(schema));
      const alternatives = new Set(here);
      const types = wrongTypes(part).filter(([type]) => !alternatives.has(type));
      for (const [what, value] of [...types, ...outOfBounds(part, sample)]) {
        if (value instanceof Raw || onlyCode.test(what) || unpatterned.has(value as string)) continue;
        const wrong = replaced(body, at, value);
        expect(accepts(wrong), `${at} ${what}: ${JSON.stringify(wrong).slice(0, 200)}`).toBe(false);
      }
    }
    const unknown = { ...(sampleBody(schema, known) as Json), unknown: 1 };
    expect(accepts(unknown)).toBe(false);
  });
});

/** Returns the schema of a body, with the items of a batch as the document describes them. */
function bodyOf({ body }: DeclaredRoute): Json {
  const { 'x-batch-items': item, ...items } = propertiesOf(body!)['items'] ?? {};
  if (item === undefined) return body!;
  return { ...body!, properties: { ...propertiesOf(body!), items: { ...items, items: item } } };
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

/** Values that conditions may or may not accept. */
const operand = fc.oneof(
  fc.constantFrom<unknown>('', 'x', 'é'.repeat(256), 'x'.repeat(257), 0, 5, -1.5, 2_147_483_648, true, false, null),
  fc.constantFrom<unknown>('2026-03-14T09:26:53.589Z', '2026-03-14', '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', 'x@y.z'),
);
const operands = fc.oneof({ weight: 3, arbitrary: operand }, fc.array(operand, { maxLength: 3 }), fc.constant({}));
const operators = fc.dictionary(fc.constantFrom(...operatorsOf.text, 'like', 'toString'), operands, {
  maxKeys: 2,
  noNullPrototype: true,
});
const condition = fc.oneof(operands, operators);

const filtersOf = (fields: FilterFields) => {
  const names = [
    ...Object.keys(fields.types),
    'custom_fields.plan',
    'custom_fields.',
    `custom_fields.${'k'.repeat(65)}`,
  ];
  const group = fc.dictionary(fc.constantFrom(...names, 'unknown', 'constructor'), condition, {
    maxKeys: 3,
    noNullPrototype: true,
  });
  const either = fc.oneof(fc.array(group, { maxLength: 3 }), operand, fc.constant([{ _or: [] }]));
  return fc.tuple(group, fc.option(either, { nil: undefined })).map(([conditions, _or]) => ({
    ...conditions,
    ...(_or === undefined ? {} : { _or }),
  }));
};

/** Compares, for generated values, whether the document accepts one and whether the service finds faults in it. */
function expectAgreement(name: string, values: fc.Arbitrary<unknown>, faultsOf: (value: unknown) => unknown[]): void {
  const accepts = component(name);
  let accepted = 0;
  fc.assert(
    fc.property(values, (value) => {
      accepted += accepts(value) ? 1 : 0;
      expect(accepts(value), JSON.stringify(faultsOf(value))).toBe(faultsOf(value).length === 0);
    }),
    { numRuns: 5_000, seed: 1 },
  );
  expect(accepted).toBeGreaterThan(100);
}

const orders = (fields: FilterFields) => {
  const field = fc.constantFrom(
    'score',
    'created_at',
    'last_name',
    'company_name',
    'search',
    'unknown',
    ...Object.keys(fields.types),
  );
  const direction = fc.constantFrom<unknown>('ASC', 'DESC', 'asc', null);
  const key = fc.oneof(
    { weight: 5, arbitrary: fc.record({ field, direction: fc.constantFrom<unknown>('ASC', 'DESC') }) },
    fc.record({ field, direction, more: operand }, { requiredKeys: [] }),
  );
  const byField = fc.dictionary(
    field,
    fc.oneof({ weight: 5, arbitrary: fc.constantFrom<unknown>('ASC', 'DESC') }, direction),
    {
      maxKeys: 4,
      noNullPrototype: true,
    },
  );
  return fc.oneof(byField, fc.array(key, { maxLength: 4 }), operand);
};

const exportFields = fc.oneof(
  fc.constantFrom<unknown>('importable', 'all', 'none', null),
  fc.array(
    fc.constantFrom('id', 'score', 'last_name', 'company_name', 'custom_fields.plan', 'custom_fields.', 'unknown'),
    { maxLength: 4 },
  ),
);

test.each<[string, fc.Arbitrary<unknown>, TSchema]>([
  ['ContactFilters', filtersOf(contactFilterFields), ContactFilters],
  ['CompanyFilters', filtersOf(companyFilterFields), CompanyFilters],
  ['ContactOrder', orders(contactFilterFields), OrderBy(contactFilterFields)],
  ['CompanyOrder', orders(companyFilterFields), OrderBy(companyFilterFields)],
  ['ProspectOrder', orders(prospectOrderFields), OrderBy(prospectOrderFields)],
  ['ContactExportOrder', orders(contactFilterFields), ContactExport.properties.order_by],
  ['CompanyExportOrder', orders(companyFilterFields), CompanyExport.properties.order_by],
  ['ContactExportFields', exportFields, ContactExport.properties.fields],
  ['CompanyExportFields', exportFields, CompanyExport.properties.fields],
])('the documented %s agree with the service', (name, values, schema) => {
  expectAgreement(name, values, compile(schema).faultsOf);
});
