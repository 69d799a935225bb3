import type { KeywordDefinition, SchemaValidateFunction } from 'ajv';

/** Checks that JSON Schema has no word for. */
export const keywords: KeywordDefinition[] = [
  {
    keyword: 'x-max-json-bytes',
    type: 'object',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not be longer than ${String(schemaCode)} bytes of JSON` },
    validate: ((most: number, value: object, schema) =>
      Object.keys(value).length > (schema?.['maxProperties'] ?? Infinity) ||
      Buffer.byteLength(flatJson(value)) <= most) satisfies SchemaValidateFunction,
  },
  {
    // Not multipleOf, which divides binary fractions: it refuses 19.99 as a multiple of 0.01.
    keyword: 'x-max-decimals',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not have more than ${String(schemaCode)} decimals` },
    validate: (most: number, value: number) => Number(value.toFixed(most)) === value,
  },
  {
    // Of an array of ids or of objects with one, or of all the arrays of an object together.
    keyword: 'x-distinct-ids',
    type: ['array', 'object'],
    schemaType: 'boolean',
    errors: 'full',
    validate: hasDistinctIds,
  },
];

/** Without what is nested: that is another keyword's fault, as too many members are. */
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

/** The ids in an array, in lower case, with their pointers. What is no id, or too many, is other keywords' concern. */
function idsIn(array: unknown, path: string, { maxItems = Infinity }: ArraySchema): { id: string; path: string }[] {
  if (!Array.isArray(array) || array.length > maxItems) return [];
  return array.flatMap((element: unknown, index) => {
    const isId = typeof element === 'string';
    const id = isId ? element : (element as { id?: unknown } | null)?.id;
    return typeof id === 'string' ? [{ id: id.toLowerCase(), path: `${path}/${index}${isId ? '' : '/id'}` }] : [];
  });
}
