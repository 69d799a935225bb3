import type { FieldType } from '../schemas/base/field-table.ts';
import {
  fieldType,
  type Condition,
  type FilterFields,
  type GivenFilters,
  type Operator,
  type Value,
} from '../schemas/filters.ts';
import { words } from '../text/fold.ts';
import { numbersIn } from '../text/phone-digits.ts';
import { all, any, not, type Comparison, type Filter, type Words } from './tree.ts';
import { canonicalOf } from './values.ts';

/**
 * Returns the tree of conditions of a request's `filters`.
 * @param given filters that are valid by their schema
 */
export const parseFilters = (fields: FilterFields, { _or, ...given }: GivenFilters = {}): Filter =>
  all([
    ...Object.entries(given).map(([name, condition]) =>
      readCondition({ name, type: fieldType(fields, name)! }, condition as Condition, 'phone_numbers' in fields.table),
    ),
    ...(_or ? [any(_or.map((one) => parseFilters(fields, one)))] : []),
  ]);

const nothing = any([]);

interface Field {
  name: string;
  type: FieldType;
}

function readCondition(field: Field, given: Condition, hasPhones: boolean): Filter {
  if (field.type === 'search') return readSearch(field, given as string, hasPhones);
  if (Array.isArray(given)) return operators.in(field, given);
  if (typeof given !== 'object' || given === null) return operators.eq(field, given);
  return all(
    Object.entries(given).map(([operator, operand]) => operators[operator as Operator](field, operand as never)),
  );
}

/** Each word must occur, and each number also in a phone number. */
function readSearch({ name }: Field, given: string, hasPhones: boolean): Filter {
  const { numbers, rest } = hasPhones ? numbersIn(given) : { numbers: [], rest: given };
  const phones = numbers.map(({ written, digits }) =>
    any([searchFor(name, written), { kind: 'contains', field: 'phones', text: digits, at: 'anywhere' }]),
  );
  return all(rest.trim() === '' && phones.length > 0 ? phones : [searchFor(name, rest), ...phones]);
}

function searchFor(field: string, text: string): Filter {
  const [first, ...others] = new Set(words(text));
  // A text without letters and digits has no words.
  if (first === undefined) return nothing;
  return any(spellingsOf([first, ...others]).map((one) => ({ kind: 'search', field, words: one })));
}

/** Words of one search that are searched in both spellings. */
const maxSpelled = 3;

/**
 * Returns the words as they are, and with `a` for `ae`, `o` for `oe` and `u` for `ue`: who has no umlauts on the keyboard
 * types `mueller`, and Müller is stored as `muller`. Words of up to three letters would find too much.
 */
function spellingsOf(given: Words): Words[] {
  const spelled = given.filter((word) => word.length > 3 && /[aou]e/.test(word)).slice(0, maxSpelled);
  const plain = (word: string): string => word.replaceAll(/([aou])e/g, '$1');
  return spelled.reduce<Words[]>(
    (all, word) => all.flatMap((one) => [one, one.map((other) => (other === word ? plain(word) : other)) as Words]),
    [given],
  );
}

type Read<Operand> = (field: Field, operand: Operand) => Filter;

const equals: Read<Value | null> = (field, value) =>
  value === null ? { kind: 'empty', field: field.name } : isOneOf(field, [value]);

const isOneOf: Read<Value[]> = ({ name, type }, values) => ({
  kind: 'in',
  field: name,
  values: [...new Set(values.map((value) => canonicalOf(type, value)))],
});

const compares =
  (operator: Comparison): Read<Value> =>
  ({ name, type }, value) => ({ kind: 'compare', field: name, operator, value: canonicalOf(type, value) });

const contains =
  (at: 'anywhere' | 'start' | 'end'): Read<string> =>
  ({ name, type }, text) => ({ kind: 'contains', field: name, text: String(canonicalOf(type, text)), at });

const isNull: Read<boolean> = ({ name }, isEmpty) => {
  const empty: Filter = { kind: 'empty', field: name };
  return isEmpty ? empty : not(empty);
};

const complement =
  <Operand>(read: Read<Operand>): Read<Operand> =>
  (field, operand) =>
    not(read(field, operand));

const operators = {
  eq: equals,
  ne: complement(equals),
  in: isOneOf,
  not_in: complement(isOneOf),
  is_null: isNull,
  contains: contains('anywhere'),
  not_contains: complement(contains('anywhere')),
  starts_with: contains('start'),
  ends_with: contains('end'),
  gt: compares('gt'),
  gte: compares('gte'),
  lt: compares('lt'),
  lte: compares('lte'),
  between: (field, [low, high]) => all([compares('gte')(field, low), compares('lte')(field, high)]),
} satisfies Record<Operator, Read<never>> & { between: Read<[Value, Value]> };
