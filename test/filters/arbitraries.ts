import * as fc from 'fast-check';
import type { FieldType } from '../../src/schemas/wire.ts';
import { indexed, operatorsOf, orderable } from '../../src/schemas/filters.ts';
import type { FilterFields, GivenFilters, Operator } from '../../src/schemas/filters.ts';
import { domains, emails, externalIds, instants, needles, searches, texts } from './pools.ts';

const given = (pool: readonly (readonly [string, unknown])[]) => fc.constantFrom(...pool.map(([text]) => text));

const numbers = fc.constantFrom(
  0,
  -0,
  1,
  -0.5,
  12.25,
  0.3,
  0.1 + 0.2,
  2 ** 53 - 2,
  Number.MAX_SAFE_INTEGER,
  Number.MIN_SAFE_INTEGER,
  5e-324,
);

const customValues = fc.oneof(
  { weight: 2, arbitrary: given(texts) },
  { weight: 2, arbitrary: numbers },
  { weight: 1, arbitrary: fc.boolean() },
);

/**
 * Random filters over the fields. Their values come from the same pools as the records' values, so that some of them
 * match.
 */
export function filtersOf(fields: FilterFields, ids: readonly string[]): fc.Arbitrary<GivenFilters> {
  const values: Record<FieldType, fc.Arbitrary<unknown>> = {
    text: fc.oneof({ weight: 3, arbitrary: given(texts) }, { weight: 1, arbitrary: given(emails) }),
    exact: fc.constantFrom(...externalIds),
    domain: fc.constantFrom(...domains.keys()),
    integer: fc.oneof(fc.integer({ min: 0, max: 4 }), fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
    number: fc.integer({ min: 0, max: 4 }),
    instant: fc.constantFrom(...instants),
    uuid: fc.constantFrom(...ids).chain((id) => fc.constantFrom(id, id.toUpperCase())),
    custom: customValues,
    boolean: fc.boolean(),
    search: given(searches),
    of: fc.constantFrom(...ids),
  };
  const condition = (type: FieldType): fc.Arbitrary<unknown> => {
    if (type === 'search' || type === 'of') return values[type];
    const operand = (operator: Operator) => operandOf(operator, values[type], type);
    const operators = fc
      .uniqueArray(fc.constantFrom(...operatorsOf[type]), { minLength: 1, maxLength: 2 })
      .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, operand(name)]))));
    return fc.oneof(values[type], fc.constant(null), fc.array(values[type], { maxLength: 3 }), {
      weight: 4,
      arbitrary: operators,
    });
  };
  const conditions: Record<string, fc.Arbitrary<unknown>> = {
    ...Object.fromEntries(Object.entries(fields.types).map(([name, type]) => [name, condition(type)])),
    ...Object.fromEntries(['a', "it's", 'ключ'].map((key) => [`custom_fields.${key}`, condition('custom')])),
  };
  const keys = (most: number) =>
    fc
      .uniqueArray(fc.constantFrom(...Object.keys(conditions)), { minLength: 1, maxLength: most })
      .chain((names) => fc.record(Object.fromEntries(names.map((name) => [name, conditions[name]!]))));
  const alternatives = fc.record({ _or: fc.array(keys(2), { maxLength: 3 }) });
  return fc.oneof(
    { weight: 1, arbitrary: fc.constant({}) },
    { weight: 6, arbitrary: keys(2) },
    { weight: 3, arbitrary: alternatives },
    { weight: 2, arbitrary: fc.tuple(keys(1), alternatives).map(([one, other]) => ({ ...one, ...other })) },
  ) as fc.Arbitrary<GivenFilters>;
}

function operandOf(operator: Operator, value: fc.Arbitrary<unknown>, type: FieldType): fc.Arbitrary<unknown> {
  const ordered = type === 'custom' ? fc.oneof(given(texts), numbers) : value;
  switch (operator) {
    case 'eq':
    case 'ne':
      return fc.option(value);
    case 'in':
    case 'not_in':
      return fc.array(value, { maxLength: 3 });
    case 'is_null':
      return fc.boolean();
    case 'between':
      return fc.tuple(ordered, ordered).filter(([low, high]) => typeof low === typeof high);
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return ordered;
    default:
      if (type === 'domain') return fc.constantFrom(...domains.keys(), '', 'AC', '.de', 'mü');
      return type === 'exact'
        ? fc.constantFrom(...externalIds, '', 'crm', '-47', 'D')
        : fc.oneof(given(needles), given(texts));
  }
}

export type Keys = { field: string; direction: 'ASC' | 'DESC' }[];

const direction = fc.constantFrom('ASC' as const, 'DESC' as const);

/** Random orders: of one field that has an index, or of one to three different fields. */
export const ordersOf = (fields: FilterFields): fc.Arbitrary<Keys> =>
  fc
    .oneof(
      fc.constantFrom(...indexed(fields), 'id').map((name) => [name]),
      fc.uniqueArray(fc.constantFrom(...orderable(fields)), { minLength: 1, maxLength: 3 }),
    )
    .chain((names) => fc.tuple(...names.map((field) => fc.record({ field: fc.constant(field), direction }))));

/** Random values of one custom field. */
export { customValues };
