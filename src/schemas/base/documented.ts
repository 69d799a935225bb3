import {
  companyFileFields,
  contactFileFields,
  exportOrderFields,
  fieldSets,
  maxFileFields,
  namesOf,
  type FileFields,
} from '../files.ts';
import {
  companyFilterFields,
  contactFilterFields,
  filterLimits,
  operatorsOf,
  orderable,
  type FieldType,
  type FilterFields,
  type Operator,
} from '../filters.ts';
import { documentedFormats } from './formats.ts';
import { unruled } from '../lists.ts';
import { prospectOrderFields } from '../prospects.ts';

type Schema = Record<string, unknown>;

/** Replaces custom formats and keywords in a request's schema by standard JSON Schema that accepts the same values. */
export const documentedRequest = (schema: Schema): Schema => documented(schema, documentedFormats);

/** Removes the formats `name` and `key-name`, which only this service defines, from a response's schema. */
export const documentedResponse = (schema: Schema): Schema => documented(schema, shownFormats);

const { country, currency } = documentedFormats;
const shownFormats: typeof documentedFormats = { country: country!, currency: currency!, name: {}, 'key-name': {} };

function documented(schema: Schema, formats: typeof documentedFormats): Schema {
  // A boolean that is always true: with its enum, Java clients do not compile.
  if (schema['type'] === 'boolean') return withoutDefault(without(schema, ['enum', 'const']));
  const format = formats[schema['format'] as string];
  const {
    'x-distinct-ids': isDistinct,
    'x-canonical-id': _,
    ...said
  } = format ? { ...without(schema, ['format']), ...format } : withKeywords(schema);
  const part = (one: Schema) => documented(one, formats);
  const walked = Object.fromEntries(
    Object.entries(withoutDefault(said)).map(([key, value]) => [key, documentedPart(key, value, part)]),
  );
  return isDistinct ? withDistinct(walked) : walked;
}

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

/** Removes `format` from an alternative and its elements: Java clients do not compile with it. The pattern stays. */
function withoutFormat(schema: Schema): Schema {
  const rest = without(schema, ['format']);
  return isSchema(rest['items']) ? { ...rest, items: withoutFormat(rest['items']) } : rest;
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

const filterFields: Record<string, FilterFields> = {
  contacts: contactFilterFields,
  company: companyFilterFields,
  prospect: prospectOrderFields,
};
const fileFields: Record<string, FileFields> = { contacts: contactFileFields, company: companyFileFields };
const titles: Record<string, string> = { contacts: 'Contact', company: 'Company', prospect: 'Prospect' };

/** Replaces a custom keyword, such as `x-filters`, by standard JSON Schema that accepts the same values. */
function withKeywords(schema: Schema): Schema {
  const { 'x-filters': filtered, 'x-order-by': ordered, 'x-order-by-index': exported, ...others } = schema;
  const { 'x-file-fields': columns, 'x-rules': ruled, ...rest } = others;
  const shown = { description: rest['description'], examples: rest['examples'] };
  if (typeof filtered === 'string')
    return { ...shown, title: `${titles[filtered]}Filters`, ...filtersOf(filterFields[filtered]!) };
  if (typeof ordered === 'string')
    return {
      ...shown,
      ...orderOf(`${titles[ordered]}Order`, orderable(filterFields[ordered]!), filterLimits.orderKeys),
    };
  if (typeof exported === 'string')
    return {
      ...shown,
      ...orderOf(`${titles[exported]}ExportOrder`, exportOrderFields[exported as keyof typeof exportOrderFields], 1),
    };
  if (typeof columns === 'string') return { ...shown, ...columnsOf(fileFields[columns]!) };
  return typeof ruled === 'string' ? { ...rest, items: ruleOf(rest['items'] as Schema, filterFields[ruled]!) } : rest;
}

function filtersOf(fields: FilterFields): Schema {
  const conditions = Object.fromEntries(Object.entries(fields.types).map(([name, type]) => [name, conditionOf(type)]));
  const names = (more: string[]) => ({ pattern: namePattern([...Object.keys(fields.types), ...more]) });
  const custom = { patternProperties: { [customPattern]: conditionOf('custom') }, additionalProperties: true };
  const alternative = {
    title: `${titles[fields.noun]}FilterAlternative`,
    description: 'Conditions by field name, joined by AND.',
    type: 'object',
    properties: conditions,
    propertyNames: names([]),
    ...custom,
  };
  const either = {
    type: 'array',
    maxItems: filterLimits.conditions,
    items: alternative,
    description: 'One more condition: at least one of these alternatives matches. `[]` matches nothing.',
  };
  return { type: 'object', properties: { ...conditions, _or: either }, propertyNames: names(['_or']), ...custom };
}

const customPattern = `^custom_fields[.][\\s\\S]{1,${filterLimits.customKey}}$`;

const namePattern = (names: readonly string[]): string =>
  `^(${names.map((name) => name.replaceAll('.', '[.]')).join('|')}|${customPattern.slice(1, -1)})$`;

const text = { type: 'string', maxLength: filterLimits.characters };
const custom = { anyOf: [text, { type: 'number' }, { type: 'boolean' }] };

/**
 * By type of field: a prefix for titles, the schema of a value tested for equality (`value`), and of one compared by an
 * operator such as `gt` (`compared`).
 */
const values: Record<Exclude<FieldType, 'search'>, { title: string; value: Schema; compared: Schema }> = {
  text: { title: 'Text', value: text, compared: text },
  exact: { title: 'Text', value: text, compared: text },
  integer: scalar('Integer', { type: 'integer', minimum: -2_147_483_648, maximum: 2_147_483_647 }),
  instant: scalar('DateTime', patterned('date-time')),
  uuid: scalar('Id', patterned('uuid')),
  custom: { title: 'CustomField', value: custom, compared: { anyOf: [text, { type: 'number' }] } },
};

/** Returns a schema with a format's pattern, without the keyword `format`, which breaks some generated Java clients. */
function patterned(format: string): Schema {
  return { type: 'string', pattern: documentedFormats[format]!.pattern };
}

function scalar(title: string, value: Schema) {
  return { title, value, compared: value };
}

function conditionOf(type: FieldType): Schema {
  if (type === 'search') return { ...text, description: 'Words, all of which must occur.' };
  const { title, value } = values[type];
  const operators = {
    title: `${title}Operators`,
    description: 'Operators with their operands, joined by AND.',
    type: 'object',
    minProperties: 1,
    additionalProperties: false,
    properties: Object.fromEntries(operatorsOf[type].map((operator) => [operator, operandOf(type, operator)])),
  };
  return {
    title: `${title}Condition`,
    description: 'A value (equals), an array (any of), null (is empty), or an object of operators.',
    anyOf: [...alternativesOf(value), listOf(value), operators, { type: 'null' }],
  };
}

const alternativesOf = (value: Schema): Schema[] => (value['anyOf'] as Schema[] | undefined) ?? [value];
const listOf = (items: Schema): Schema => ({ type: 'array', maxItems: filterLimits.values, items });

function operandOf(type: Exclude<FieldType, 'search'>, operator: Operator): Schema {
  const { value, compared } = values[type];
  const described = { description: operatorTexts[operator] };
  switch (operator) {
    case 'eq':
    case 'ne':
      return { ...described, anyOf: [...alternativesOf(value), { type: 'null' }] };
    case 'in':
    case 'not_in':
      return { ...described, ...listOf(value) };
    case 'is_null':
      return { ...described, type: 'boolean' };
    case 'between':
      return {
        ...described,
        ...oneOf(alternativesOf(compared).map((items) => ({ type: 'array', minItems: 2, maxItems: 2, items }))),
      };
    case 'contains':
    case 'not_contains':
    case 'starts_with':
    case 'ends_with':
      return { ...described, ...text };
    default:
      return { ...described, ...compared };
  }
}

const oneOf = (schemas: Schema[]): Schema => (schemas.length === 1 ? schemas[0]! : { anyOf: schemas });

const operatorTexts: Record<Operator, string> = {
  eq: 'Equals; null: is empty.',
  ne: 'Does not equal; also matches empty fields. null: is not empty.',
  in: 'Equals one of these values.',
  not_in: 'Equals none of these values; also matches empty fields.',
  is_null: 'true: is null, absent or `""`; false: is not.',
  contains: 'Contains this text.',
  not_contains: 'Does not contain this text; also matches empty fields.',
  starts_with: 'Starts with this text.',
  ends_with: 'Ends with this text.',
  gt: 'Is greater than, or later than.',
  gte: 'Is greater than or equal.',
  lt: 'Is less than, or earlier than.',
  lte: 'Is less than or equal.',
  between: 'Is between two values `[low, high]`, both included.',
};

/** Limits the property `field` of a list's rule to the fields that rules can use. */
function ruleOf(rule: Schema, { types }: FilterFields): Schema {
  const properties = rule['properties'] as Record<string, Schema>;
  const names = Object.keys(types).filter((name) => !unruled.includes(name));
  return { ...rule, properties: { ...properties, field: { ...properties['field'], pattern: namePattern(names) } } };
}

function orderOf(title: string, names: readonly string[], maxKeys: number): Schema {
  const direction = {
    title: 'SortDirection',
    description: '`ASC`: smallest first; `DESC`: greatest first.',
    type: 'string',
    enum: ['ASC', 'DESC'],
  };
  const field = { title: `${title}Field`, description: 'A field to sort by.', type: 'string', enum: [...names] };
  const byField = {
    title: `${title}ByField`,
    description: 'The direction by field, most significant first.',
    type: 'object',
    additionalProperties: false,
    minProperties: 1,
    maxProperties: maxKeys,
    properties: Object.fromEntries(names.map((name) => [name, direction])),
  };
  const key = {
    title: `${title}Key`,
    description: 'A field and its direction.',
    type: 'object',
    additionalProperties: false,
    required: ['field', 'direction'],
    properties: { field, direction },
  };
  return { title, anyOf: [byField, { type: 'array', minItems: 1, maxItems: maxKeys, items: key }] };
}

function columnsOf(fields: FileFields): Schema {
  const name = { type: 'string', pattern: namePattern(namesOf(fields)) };
  return {
    title: `${titles[fields.noun]}ExportFields`,
    anyOf: [
      { type: 'string', enum: [...fieldSets] },
      { type: 'array', minItems: 1, maxItems: maxFileFields, uniqueItems: true, items: name },
    ],
  };
}
