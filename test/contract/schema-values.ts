import * as fc from 'fast-check';
import type { Json } from './declared.ts';

/** How values are made for a schema of the OpenAPI document. */
export interface ValueOptions {
  /** Returns the schema that a `$ref` names. */
  resolve: (ref: string) => Json;
  /** Ids of records that exist. */
  ids: readonly string[];
}

/** Deeper than this, an object has only its required members. */
const maxDepth = 5;

/**
 * Returns a generator of random values for a JSON schema. Nearly all of them are valid: a few rules, such as `not`, are
 * left out, so whoever needs to know must validate the value.
 */
export function valuesOf(schema: Json, options: ValueOptions, depth = 0): fc.Arbitrary<unknown> {
  const { $ref, anyOf, oneOf, ...rest } = schema;
  const into = (one: Json) => valuesOf(one, options, depth + 1);
  if ($ref !== undefined) return valuesOf({ ...options.resolve($ref as string), ...rest }, options, depth);
  const alternatives = (anyOf ?? oneOf) as Json[] | undefined;
  if (alternatives) return fc.oneof(...alternatives.map((one) => into({ ...rest, ...one })));
  if ('const' in schema) return fc.constant(schema['const']);
  if (schema['enum']) return fc.constantFrom(...(schema['enum'] as unknown[]));
  const types = [schema['type'] ?? Object.keys(byType)].flat() as (keyof typeof byType)[];
  return fc.oneof(...types.map((type) => byType[type](schema, options, depth)));
}

type Make = (schema: Json, options: ValueOptions, depth: number) => fc.Arbitrary<unknown>;

const byType = {
  null: () => fc.constant(null),
  boolean: () => fc.boolean(),
  integer: ({ minimum: min = -(2 ** 53) + 1, maximum: max = 2 ** 53 - 1 }) =>
    fc.oneof(fc.integer({ min, max } as Range), fc.constantFrom(min, max)),
  number: (schema) => numbers(schema),
  string: (schema, options) => texts(schema, options),
  array: (schema, options, depth) => arrays(schema, options, depth),
  object: (schema, options, depth) => objects(schema, options, depth),
} satisfies Record<string, Make>;

interface Range {
  min: number;
  max: number;
}

function numbers({ minimum = -1e9, maximum = 1e9, 'x-max-decimals': decimals = 2 }: Json): fc.Arbitrary<unknown> {
  const [min, max, scale] = [minimum as number, maximum as number, 10 ** Number(decimals)];
  return fc.double({ min, max, noNaN: true }).map((value) => {
    const rounded = Math.round(value * scale) / scale;
    return rounded < min || rounded > max ? min : rounded;
  });
}

/** Texts of many kinds: markup, SQL, other scripts, white space, long ones. None is invalid by itself. */
const curious = [
  '',
  ' ',
  '\u00a0',
  "'; drop table contacts; --",
  '%_\\',
  '<script>alert(1)</script>',
  '=1+1',
  '__proto__',
  'İıſßﬁ',
  'مرحبا',
  '東京都港区',
  '👩‍👩‍👧‍👦',
  '\u202e\u200b',
  'null',
  '1e999',
  'x'.repeat(255),
];

function texts({ format, pattern, minLength = 0, maxLength }: Json, { ids }: ValueOptions): fc.Arbitrary<string> {
  const [min, max] = [minLength as number, (maxLength as number | undefined) ?? 300];
  const isFitting = (text: string) => [...text].length >= min && [...text].length <= max;
  if (format === 'uuid') return fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...ids) }, fc.uuid());
  if (format === 'date-time')
    return fc
      .date({ min: new Date('0001-01-02'), max: new Date('9998-12-30'), noInvalidDate: true })
      .map((date) => date.toISOString());
  if (pattern !== undefined)
    return fc.stringMatching(new RegExp(pattern as string, 'u'), { size: 'small' }).filter(isFitting);
  return fc.oneof(
    fc.string({ unit: 'grapheme', minLength: min, maxLength: Math.min(max, min + 20) }),
    fc.constantFrom(...curious.filter(isFitting), 'x'.repeat(Math.min(max, 5_000))),
  );
}

interface ArraySchema {
  items?: Json;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
}

function arrays(schema: Json, options: ValueOptions, depth: number): fc.Arbitrary<unknown> {
  const { items = {}, minItems = 0, maxItems = 1_000, uniqueItems } = schema as ArraySchema;
  const item = valuesOf(items, options, depth + 1);
  const lengths = { minLength: minItems, maxLength: Math.min(maxItems, minItems + 3) };
  if (!uniqueItems) return fc.array(item, lengths);
  return fc.uniqueArray(item, { ...lengths, selector: (value) => JSON.stringify(value) });
}

function objects(schema: Json, options: ValueOptions, depth: number): fc.Arbitrary<unknown> {
  const properties = (schema['properties'] ?? {}) as Record<string, Json>;
  const required = ((schema['required'] ?? []) as string[]).filter((name) => name in properties);
  const optional = Object.keys(properties).filter((name) => !required.includes(name));
  const least = Math.max(0, Number(schema['minProperties'] ?? 0) - required.length);
  const chosen = fc.shuffledSubarray(optional, {
    minLength: Math.min(least, optional.length),
    maxLength: Math.min(optional.length, depth < maxDepth ? Math.max(least, 4) : least),
  });
  const known = chosen.chain((names) =>
    fc.record(
      Object.fromEntries(
        [...required, ...names].map((name) => [name, valuesOf(properties[name]!, options, depth + 1)]),
      ),
    ),
  );
  return fc.tuple(known, furtherMembers(schema, options, depth)).map(([own, further]) => ({ ...further, ...own }));
}

/** Returns generators of the members of an object that its schema does not name, such as custom fields. */
function furtherMembers(schema: Json, options: ValueOptions, depth: number): fc.Arbitrary<object> {
  const { additionalProperties: rest, patternProperties, propertyNames } = schema as Record<string, Json | false>;
  const named = Object.entries((patternProperties || {}) as Record<string, Json>).map(
    ([pattern, one]) => [fc.stringMatching(new RegExp(pattern, 'u'), { size: 'small' }), one] as const,
  );
  const names = propertyNames
    ? valuesOf({ type: 'string', ...propertyNames }, options, depth + 1)
    : fc.string({ minLength: 1, maxLength: 10 });
  const open = rest && typeof rest === 'object' ? [[names as fc.Arbitrary<string>, rest] as const] : [];
  const kinds = [...named, ...open];
  if (kinds.length === 0 || depth >= maxDepth) return fc.constant({});
  const members = kinds.map(([name, one]) => fc.dictionary(name, valuesOf(one, options, depth + 1), { maxKeys: 2 }));
  return fc.tuple(...members).map((each) => Object.assign({}, ...each) as object);
}
