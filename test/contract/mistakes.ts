import type { Json } from './declared.ts';
import { typesOf } from './positions.ts';

/** An invalid value for a schema, with a description. `Raw` stands for JSON text that no value serialises to. */
export type Mistake = [what: string, value: unknown];

/** JSON text that replaces a value. */
export class Raw {
  readonly json: string;
  constructor(json: string) {
    this.json = json;
  }
}

/** Serialises a body as JSON, with `Raw` values as they are. */
export function toJson(body: unknown): string {
  const raws: string[] = [];
  const marked = JSON.stringify(body, (_key, value: unknown) =>
    value instanceof Raw ? `raw:${raws.push(value.json) - 1}:raw` : value,
  );
  return marked.replaceAll(/"raw:(\d+):raw"/g, (_match, index: string) => raws[Number(index)]!);
}

const oneOfEach: Record<string, unknown> = {
  string: '5',
  integer: 5,
  number: 1.5,
  boolean: true,
  null: null,
  array: [],
  object: {},
};

/** Returns a value of every type that the schema does not allow: nothing may be coerced. */
export function wrongTypes(schema: Json): Mistake[] {
  const types = typesOf(schema);
  const taken = new Set(types.includes('number') ? [...types, 'integer'] : types);
  return Object.entries(oneOfEach).filter(([type]) => !taken.has(type));
}

/** Returns values of the right type that break other rules of the schema. */
export function outOfBounds(schema: Json, sample: unknown): Mistake[] {
  const types = typesOf(schema);
  return [
    ...(types.includes('string') ? badTexts(schema) : []),
    ...(types.includes('integer') || types.includes('number') ? badNumbers(schema) : []),
    ...(types.includes('array') ? badArrays(schema, sample) : []),
  ];
}

function badTexts(schema: Json): Mistake[] {
  const { minLength, maxLength, format } = schema as { minLength?: number; maxLength?: number; format?: string };
  return [
    ['a NUL character', new Raw(String.raw`"a\u0000b"`)],
    ['a lone high surrogate', new Raw(String.raw`"a\ud83db"`)],
    ['a lone low surrogate', new Raw(String.raw`"\ude00"`)],
    ...(maxLength === undefined ? [] : [['too long', 'x'.repeat(maxLength + 1)] as Mistake]),
    ...(minLength === undefined ? [] : [['too short', 'x'.repeat(minLength - 1)] as Mistake]),
    ...(schema['enum'] ? [['no value of these', 'none'] as Mistake] : []),
    ...(format === undefined ? [] : badFormats[format]!.map((text): Mistake => [`no ${format}`, text])),
  ];
}

/** Texts that look valid but are not. Ajv's own formats accept some of them, and PostgreSQL rejects those. */
export const badFormats: Record<string, string[]> = {
  uuid: [
    '',
    'x',
    '0197a1b2c3d47e5f8a9b0c1d2e3f4a5b',
    '{0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b}',
    'urn:uuid:0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
    '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5',
    '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b\n',
    '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5g',
  ],
  'feed-start': ['', 'end', 'Start', 'now ', '2026-03-14'],
  email: ['', 'x', 'a@', '@example.com', 'a b@example.com', 'a@example..com', `${'x'.repeat(250)}@example.com`],
  'date-time': [
    '',
    'today',
    '2026-01-01',
    '2026-01-01T00:00:00',
    '2026-01-01 00:00:00Z',
    '2026-02-30T00:00:00Z',
    '2025-02-29T00:00:00Z',
    '2026-12-31T23:59:60Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:00+24:00',
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+01:00',
    '9999-12-31T23:59:59-01:00',
    '+010000-01-01T00:00:00Z',
    '1767225600',
  ],
  domain: ['', 'localhost', 'a b.de', 'a..b', '-a.de', 'ada@acme.de', 'acme.de:port', `${'x'.repeat(64)}.de`],
  name: ['', '   ', '\u00a0\n', 'x'.repeat(256)],
  'key-name': ['', '   ', 'x'.repeat(121)],
  country: ['X', 'XX', 'XK', 'GBR', '44', 'ß'],
  currency: ['', 'EU', 'ZZZ', 'EURO', '978', '€', 'ıdr'],
};

function badNumbers(schema: Json): Mistake[] {
  const { minimum, maximum, 'x-max-decimals': decimals } = schema as Record<string, number | undefined>;
  const listed = schema['enum'] ? [['no value of these', 8] as Mistake] : [];
  return [
    ['past every number', new Raw('1e400')],
    ['past every number, below', new Raw('-1e400')],
    ...(minimum === undefined ? [] : [['too small', minimum - 1] as Mistake]),
    ...(maximum === undefined ? [] : [['too large', maximum + 1] as Mistake]),
    ...(decimals === undefined ? [] : [['too fine', new Raw(`1e-${decimals + 1}`)] as Mistake]),
    ...listed,
  ];
}

function badArrays(schema: Json, sample: unknown): Mistake[] {
  const { minItems, maxItems } = schema as { minItems?: number; maxItems?: number };
  const element = (sample as unknown[])[0];
  return [
    ...(minItems === undefined ? [] : [['too few', Array<unknown>(minItems - 1).fill(element)] as Mistake]),
    ...(maxItems === undefined ? [] : [['too many', Array<unknown>(maxItems + 1).fill(element)] as Mistake]),
  ];
}
