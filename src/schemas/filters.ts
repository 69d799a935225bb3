import { Type, type TProperties, type TSchema, type TString, type TUnsafe } from '@sinclair/typebox';
import { lengthOf } from '../text/fold.ts';
import {
  namesWhere,
  type FieldTable,
  type FieldType,
  Enum,
  Paginate,
  PaginateOrContinue,
  PartialBody,
} from './wire.ts';

export interface FilterFields {
  readonly noun: string;
  readonly title: string;
  readonly table: FieldTable;
  readonly types: Readonly<Record<string, FieldType>>;
  readonly customFields: boolean;
}

export const filterFieldsOf = (noun: string, title: string, table: FieldTable, customFields = true): FilterFields => ({
  noun,
  title,
  table,
  types: Object.fromEntries(namesWhere(table, ({ filter }) => filter).map((name) => [name, table[name]!.filter!])),
  customFields,
});

const equality = ['eq', 'ne', 'in', 'not_in', 'is_null'] as const;
const comparison = ['gt', 'gte', 'lt', 'lte', 'between'] as const;
const matching = ['contains', 'not_contains', 'starts_with', 'ends_with'] as const;

export type Operator = (typeof equality | typeof comparison | typeof matching)[number];

export const operatorsOf: Readonly<Record<FieldType, readonly Operator[]>> = {
  text: [...equality, ...matching, ...comparison],
  exact: [...equality, ...matching, ...comparison],
  domain: [...equality, ...matching, ...comparison],
  custom: [...equality, ...matching, ...comparison],
  integer: [...equality, ...comparison],
  number: [...equality, ...comparison],
  instant: [...equality, ...comparison],
  uuid: equality,
  boolean: equality,
  search: [],
  of: [],
};

/** Maximum numbers in the filters of one request. `values` counts per condition, `characters` per value. */
export const filterLimits = { conditions: 25, values: 100, characters: 256, customKey: 64, orderKeys: 3 } as const;

export function fieldType(fields: FilterFields, name: string): FieldType | undefined {
  if (Object.hasOwn(fields.types, name)) return fields.types[name];
  return fields.customFields && customKey(name) !== undefined ? 'custom' : undefined;
}

const customPrefix = 'custom_fields.';

export function customKey(name: string): string | undefined {
  const length = lengthOf(name) - customPrefix.length;
  const fits = name.startsWith(customPrefix) && length >= 1 && length <= filterLimits.customKey;
  return fits ? name.slice(customPrefix.length) : undefined;
}

export const orderable = (fields: FilterFields): string[] =>
  namesWhere(fields.table, ({ filter, isUnsorted }) => filter && !isUnsorted);

export const indexed = ({ table }: FilterFields): string[] => namesWhere(table, ({ isIndexed }) => isIndexed);

/** Value of a condition, as the caller wrote it. Texts, times and ids are not yet normalised. */
export type Value = string | number | boolean;

type Operators = { [Name in Operator]?: Value | Value[] | null | undefined };

export type Condition = Value | Value[] | null | Operators;

/** Conditions by field name. `_or` contains groups of conditions, of which one must match. */
export type GivenFilters = { _or?: GivenFilters[] | undefined } & {
  [field: string]: Condition | GivenFilters[] | undefined;
};

export type GivenOrder = Record<string, string> | { field: string; direction: string }[];

const Words = Type.String({ maxLength: filterLimits.characters });
const Instants = Type.String({ format: 'date-time', maxLength: 256 });
const Ids = Type.String({ format: 'uuid' });
const Numbers = Type.Number({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER });

/**
 * Schemas by type of field. `title` is the beginning of the schemas' names. `values` are the forms that a value can
 * have.
 */
const scalars: Record<Exclude<FieldType, 'search' | 'of'>, { title: string; values: TSchema[] }> = {
  text: { title: 'Text', values: [Words] },
  exact: { title: 'Text', values: [Words] },
  domain: { title: 'Text', values: [Words] },
  integer: { title: 'Integer', values: [Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 })] },
  number: { title: 'Number', values: [Numbers] },
  boolean: { title: 'Boolean', values: [Type.Boolean()] },
  instant: { title: 'DateTime', values: [Instants] },
  uuid: { title: 'Id', values: [Ids] },
  custom: { title: 'CustomField', values: [Words, Numbers, Type.Boolean()] },
};

const oneOf = (schemas: TSchema[], options: object = {}): TSchema =>
  schemas.length === 1 ? { ...schemas[0]!, ...options } : Type.Union(schemas, options);

const listOf = (values: TSchema[], options: object = {}) =>
  Type.Array(oneOf(values), { maxItems: filterLimits.values, ...options });

function conditionOf(type: FieldType): TSchema {
  if (type === 'search') return { ...Words, description: 'Words, all of which must occur.' };
  if (type === 'of') return Type.Union([Ids, listOf([Ids])], { description: 'An id, or an array of ids (any of).' });
  const { title, values } = scalars[type];
  const operators = operatorsOf[type].map((operator) => [operator, Type.Optional(operandOf(operator, values))]);
  const Operators = Type.Object(Object.fromEntries(operators), {
    title: `${title}Operators`,
    description: 'Operators with their operands, joined by AND.',
    additionalProperties: false,
    minProperties: 1,
  });
  return Type.Union([...values, listOf(values), Operators, Type.Null()], {
    title: `${title}Condition`,
    description: 'A value (equals), an array (any of), null (is empty), or an object of operators.',
  });
}

function operandOf(operator: Operator, values: TSchema[]): TSchema {
  const described = { description: operatorTexts[operator] };
  if ((matching as readonly string[]).includes(operator)) return { ...Words, ...described };
  const ordered = values.filter(({ type }) => values.length === 1 || type !== 'boolean');
  switch (operator) {
    case 'eq':
    case 'ne':
      return Type.Union([...values, Type.Null()], described);
    case 'in':
    case 'not_in':
      return listOf(values, described);
    case 'is_null':
      return Type.Boolean(described);
    case 'between':
      return oneOf(
        ordered.map((one) => Type.Array(one, { minItems: 2, maxItems: 2 })),
        described,
      );
    default:
      return oneOf(ordered, described);
  }
}

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

/**
 * Returns the description of filters for the API document.
 * @param searched fields in which the condition `search` looks for words; undefined if there is no such condition
 */
export const textOfFilters = (searched?: string) =>
  [
    'Conditions by field name, joined by AND. A value is a scalar (equals), an array (any of; `[]` matches nothing), `null`',
    '(null, absent or `""`) or an object of operators. `_or: [{…}, {…}]` is one more condition; it cannot be nested.',
    `At most ${filterLimits.conditions} conditions, ${filterLimits.values} values, ${filterLimits.characters} characters each.`,
    'Text is compared without regard to case, accents and surrounding white space. `ne`, `not_in` and `not_contains` match missing values too.',
    ...(searched === undefined
      ? []
      : [
          `\`search\` is a string. It matches if each of its words occurs in ${searched}.`,
          '`ae`, `oe` and `ue` also find `ä`, `ö` and `ü`. Without any letter or digit it matches nothing.',
        ]),
  ].join('\n');

export const nameOf = (names: readonly string[], customFields: boolean, options: object = {}): TString =>
  Type.String({
    pattern: `^(${[...names.map((name) => name.replaceAll('.', '[.]')), ...(customFields ? [customPattern.slice(1, -1)] : [])].join('|')})$`,
    ...options,
  });

export const customPattern = `^custom_fields[.][\\s\\S]{1,${filterLimits.customKey}}$`;

export function Filters(
  { title, types, customFields }: FilterFields,
  description: string,
  example: GivenFilters,
): TUnsafe<GivenFilters> {
  const conditions = Object.fromEntries(
    Object.entries(types).map(([name, type]) => [name, Type.Optional(conditionOf(type))]),
  );
  const withNames = (properties: TProperties, options: object) =>
    Type.Object(properties, {
      ...(customFields && { patternProperties: { [customPattern]: conditionOf('custom') } }),
      propertyNames: nameOf(Object.keys(properties), customFields),
      additionalProperties: true, // tells generated clients that every key is allowed
      ...options,
    });
  const Alternative = withNames(conditions, {
    title: `${title}FilterAlternative`,
    description: 'Conditions by field name, joined by AND.',
  });
  const Either = Type.Array(Alternative, {
    maxItems: filterLimits.conditions,
    description: 'One more condition: at least one of these alternatives matches. `[]` matches nothing.',
  });
  return Type.Unsafe(
    withNames(
      { ...conditions, _or: Type.Optional(Either) },
      {
        title: `${title}Filters`,
        'x-max-conditions': filterLimits.conditions,
        description,
        examples: [example],
      },
    ),
  );
}

const Directions = Enum(['ASC', 'DESC'], {
  title: 'SortDirection',
  description: '`ASC`: smallest first; `DESC`: greatest first.',
});

export function orderOf(
  title: string,
  names: readonly string[],
  maxKeys: number,
  options: object,
): TUnsafe<GivenOrder> {
  const ByField = Type.Object(Object.fromEntries(names.map((name) => [name, Type.Optional(Directions)])), {
    title: `${title}ByField`,
    description: 'The direction by field, most significant first.',
    additionalProperties: false,
    minProperties: 1,
    maxProperties: maxKeys,
  });
  const field = Enum(names, { title: `${title}Field`, description: 'A field to sort by.' });
  const Key = Type.Object(
    { field, direction: Directions },
    { title: `${title}Key`, description: 'A field and its direction.', additionalProperties: false },
  );
  return Type.Unsafe(Type.Union([ByField, Type.Array(Key, { minItems: 1, maxItems: maxKeys })], { title, ...options }));
}

export const OrderBy = (fields: FilterFields, [first, second]: [string, string] = ['score', 'industry']) =>
  orderOf(`${fields.title}Order`, orderable(fields), filterLimits.orderKeys, {
    description:
      `\`{field: "ASC"|"DESC"}\` or \`[{field, direction}]\`, 1–${filterLimits.orderKeys} keys, most significant first; newest first by default. ` +
      `Nulls come last. Text is sorted without regard to case and accents. The id breaks ties.`,
    examples: [
      { [first]: 'DESC' },
      [
        { field: second, direction: 'ASC' },
        { field: first, direction: 'DESC' },
      ],
    ],
  });

/**
 * Returns the bodies of the calls that list and count records.
 * @param given `filters` and `order`: examples of them; `orderBy`: fields for further examples
 */
export function listBodies<F extends TSchema>(
  fields: FilterFields,
  filters: F,
  given: { filters: object; order: object; orderBy?: [string, string] },
) {
  const { filters: example, order } = given;
  const listed = { filters, order_by: OrderBy(fields, given.orderBy) };
  const page = { filters: example, order_by: order, paginate: { page: 1, limit: 25 } };
  return {
    query: PartialBody(`${fields.title}Query`, [page], { ...listed, paginate: PaginateOrContinue }),
    count: PartialBody(`${fields.title}Count`, [{ filters: example }], { ...listed, paginate: Paginate }),
  };
}

export const textOfPeople = textOfFilters("the names, the e-mail addresses or the company's name");
export const exampleOfPeople = {
  score: { gte: 50 },
  _or: [{ location_country: ['DE', 'AT'] }, { industry: { contains: 'software' } }],
};
