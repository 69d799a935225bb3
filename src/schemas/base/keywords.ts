import type { KeywordDefinition, SchemaValidateFunction } from 'ajv';
import { canonicalId } from '../../text/ids.ts';

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
    // `multipleOf` cannot be used. It divides binary fractions, so 19.99 is not a multiple of 0.01.
    keyword: 'x-max-decimals',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not have more than ${String(schemaCode)} decimals` },
    validate: (max: number, value: number) => Number(value.toFixed(max)) === value,
  },
  {
    // Converts an id to lower case, so that no other code meets an id of a request in upper case.
    keyword: 'x-canonical-id',
    type: 'string',
    schemaType: 'boolean',
    modifying: true,
    errors: false,
    validate: ((_: true, id: string, _schema, context) => {
      // The search for all faults of an invalid body checks elements of arrays on their own, without their array.
      if (context?.parentData) context.parentData[context.parentDataProperty] = canonicalId(id) ?? id;
      return true;
    }) satisfies SchemaValidateFunction,
  },
  {
    // Checks an array of ids or of objects with an id. For an object, checks all its arrays together.
    keyword: 'x-distinct-ids',
    type: ['array', 'object'],
    schemaType: 'boolean',
    errors: 'full',
    validate: hasDistinctIds,
  },
];

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
