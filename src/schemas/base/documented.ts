import { customPattern } from '../filters.ts';
import { documentedFormats } from './formats.ts';

type Schema = Record<string, unknown>;

/** Replaces custom formats and keywords in a request's schema by standard JSON Schema that accepts the same values. */
export const documentedRequest = (schema: Schema): Schema => documented(schema, documentedFormats);

/** Removes the formats `name`, `key-name` and `domain`, which only this service defines, from a response's schema. */
export const documentedResponse = (schema: Schema): Schema => documented(schema, shownFormats);

const { country, currency } = documentedFormats;
const shownFormats: typeof documentedFormats = {
  country: country!,
  currency: currency!,
  name: {},
  'key-name': {},
  domain: {},
};

function documented(schema: Schema, formats: typeof documentedFormats): Schema {
  // A boolean that is always true: with its enum, Java clients do not compile.
  if (schema['type'] === 'boolean') return withoutDefault(without(schema, ['enum', 'const']));
  const format = formats[schema['format'] as string];
  const {
    'x-distinct-ids': isDistinct,
    'x-canonical-id': _id,
    'x-domain': _domain,
    'x-max-conditions': _max,
    'x-rules': _rules,
    ...said
  } = format ? { ...without(schema, ['format']), ...format } : schema;
  const part = (one: Schema) => documented(one, formats);
  const walked = Object.fromEntries(
    Object.entries(withoutDefault(said)).map(([key, value]) => [key, documentedPart(key, value, part)]),
  );
  return isDistinct ? withDistinct(walked) : withCustomFields(walked);
}

/**
 * Of filters, the document generator says that all other names are custom fields: some generated clients would then take
 * all conditions for those.
 */
const withCustomFields = (schema: Schema): Schema =>
  isSchema(schema['additionalProperties']) && isSchema(schema['propertyNames']) && 'pattern' in schema['propertyNames']
    ? { ...schema, patternProperties: { [customPattern]: schema['additionalProperties'] }, additionalProperties: true }
    : schema;

/** Moves the default of an optional member to its description: some generated clients would require the member. */
function withoutDefault({ default: value, ...schema }: Schema): Schema {
  if (value === undefined) return schema;
  const { description } = schema as { description?: string };
  return {
    ...schema,
    description: [description, `Default: \`${JSON.stringify(value).replaceAll('"', '')}\`.`].filter(Boolean).join(' '),
  };
}

const without = (schema: Schema, keywords: string[]): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => !keywords.includes(key)));

/** Applies `part` to each schema in a keyword's value, such as that of `items`. */
function documentedPart(key: string, value: unknown, part: (schema: Schema) => Schema): unknown {
  if (key === 'items' || key === 'additionalProperties') return isSchema(value) ? part(value) : value;
  if (key === 'anyOf' || key === 'oneOf') return (value as Schema[]).map((one) => withoutFormat(part(one)));
  if (key !== 'properties') return value;
  return Object.fromEntries(Object.entries(value as Schema).map(([name, one]) => [name, part(one as Schema)]));
}

/**
 * Removes `format` from an alternative, its elements and its properties if all are optional: Java clients do not compile
 * with it. The pattern stays.
 */
function withoutFormat(schema: Schema): Schema {
  const rest = without(schema, ['format']);
  const { items, properties } = rest;
  return {
    ...rest,
    ...(isSchema(items) && { items: withoutFormat(items) }),
    ...(isSchema(properties) &&
      !('required' in rest) && {
        properties: Object.fromEntries(
          Object.entries(properties).map(([name, one]) => [name, withoutFormat(one as Schema)]),
        ),
      }),
  };
}

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null;

/** Adds `uniqueItems` to an array schema, or to each array of an object schema, in place of `x-distinct-ids`. */
function withDistinct(schema: Schema): Schema {
  if (schema['type'] === 'array') return { ...schema, uniqueItems: true };
  const arrays = Object.entries(schema['properties'] as Record<string, Schema>);
  return {
    ...schema,
    properties: Object.fromEntries(arrays.map(([name, array]) => [name, { ...array, uniqueItems: true }])),
  };
}
