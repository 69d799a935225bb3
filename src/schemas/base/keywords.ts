import type { KeywordDefinition, SchemaValidateFunction } from 'ajv';
import { domainOf } from '../../text/domains.ts';
import { canonicalId } from '../../text/ids.ts';

/** Returns a keyword that replaces a text by its canonical form, so that no other code meets another one. */
const rewriting = (keyword: string, canonical: (text: string) => string | undefined): KeywordDefinition => ({
  keyword,
  type: 'string',
  schemaType: 'boolean',
  modifying: true,
  errors: false,
  validate: ((_: true, text: string, _schema, context) => {
    // The search for all faults of an invalid body checks elements of arrays on their own, without their array.
    if (context?.parentData) context.parentData[context.parentDataProperty] = canonical(text) ?? text;
    return true;
  }) satisfies SchemaValidateFunction,
});

/** What JSON Schema cannot express. */
export const keywords: KeywordDefinition[] = [
  {
    keyword: 'x-max-json-bytes',
    type: 'object',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not be longer than ${String(schemaCode)} bytes of JSON` },
    validate: ((max: number, value: object, schema) =>
      Object.keys(value).length > (schema?.['maxProperties'] ?? Infinity) ||
      Buffer.byteLength(flatJson(value)) <= max) satisfies SchemaValidateFunction,
  },
  {
    // Counts those of alternatives, too.
    keyword: 'x-max-conditions',
    type: 'object',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must have at most ${String(schemaCode)} conditions` },
    validate: (max: number, filters: object) => countConditions(filters) <= max,
  },
  {
    // `multipleOf` cannot be used. It divides binary fractions, so 19.99 is not a multiple of 0.01.
    keyword: 'x-max-decimals',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not have more than ${String(schemaCode)} decimals` },
    validate: (max: number, value: number) => Number(value.toFixed(max)) === value,
  },
  rewriting('x-canonical-id', canonicalId),
  rewriting('x-domain', domainOf),
  {
    // Checks an array of ids or of objects with an id. For an object, checks all its arrays together.
    keyword: 'x-distinct-ids',
    type: ['array', 'object'],
    schemaType: 'boolean',
    errors: 'full',
    validate: hasDistinctIds,
  },
];

function countConditions(filters: unknown): number {
  if (!isObject(filters)) return 1;
  const counts = Object.entries(filters).map(([name, condition]) => {
    if (name === '_or' && Array.isArray(condition)) return condition.map(countConditions).reduce((a, b) => a + b, 0);
    return isObject(condition) ? Object.keys(condition).length : 1;
  });
  return counts.reduce((a, b) => a + b, 0);
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns an object's JSON text, to measure it. Nested values are null, because other checks reject them. */
const flatJson = (value: object): string =>
  JSON.stringify(
    Object.fromEntries(Object.entries(value).map(([key, member]) => [key, typeof member === 'object' ? null : member])),
  );

function hasDistinctIds(...[, value, schema, context]: Parameters<SchemaValidateFunction>): boolean {
  const path = context?.instancePath ?? '';
  const members = Object.entries((schema?.['properties'] ?? {}) as Record<string, ArraySchema>);
  const named = Array.isArray(value)
    ? idsIn(value, path, schema as ArraySchema)
    : members.flatMap(([name, one]) => idsIn((value as Record<string, unknown>)[name], `${path}/${name}`, one));
  const seen = new Set<string>();
  const again = named.filter(({ id }) => seen.size === seen.add(id).size);
  (hasDistinctIds as SchemaValidateFunction).errors = again.map((one) => ({
    keyword: 'x-distinct-ids',
    instancePath: one.path,
    message: 'is named twice',
    params: {},
  }));
  return again.length === 0;
}

type ArraySchema = { maxItems?: number };

/**
 * Returns the canonical ids of an array with their JSON pointers. Skips elements without an id. Empty if the array is
 * too long, because another check rejects it.
 */
function idsIn(array: unknown, path: string, { maxItems = Infinity }: ArraySchema): { id: string; path: string }[] {
  if (!Array.isArray(array) || array.length > maxItems) return [];
  return array.flatMap((element: unknown, index) => {
    const isId = typeof element === 'string';
    const id = isId ? element : (element as { id?: unknown } | null)?.id;
    return typeof id === 'string' ? [{ id: canonicalId(id) ?? id, path: `${path}/${index}${isId ? '' : '/id'}` }] : [];
  });
}
