import { type FieldType, defaultLimit } from '../schemas/wire.ts';
import { fieldType } from '../schemas/filters.ts';
import type { Condition, FilterFields, GivenFilters, Operator, Value, GivenOrder } from '../schemas/filters.ts';
import { withAsciiLabels } from '../text/domains.ts';
import { words, numbersIn, fold } from '../text/fold.ts';
import { all, any, not, canonicalOf, parseOrder } from './columns.ts';
import type { Comparison, Filter, Words, Column, Source, Order } from './columns.ts';
import { encodeCursor, readPosition, scopeOf, type KeyValue, type Position } from './cursor.ts';

export const parseFilters = (fields: FilterFields, { _or, ...given }: GivenFilters = {}): Filter =>
  all([
    ...Object.entries(given).map(([name, condition]) =>
      readCondition({ name, type: fieldType(fields, name)! }, condition as Condition, 'phone_numbers' in fields.table),
    ),
    ...(_or ? [any(_or.map((one) => parseFilters(fields, one)))] : []),
  ]);

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

/**
 * Converts the text of a search to a filter. The record must contain each word. A number may also occur in a phone
 * number.
 */
function readSearch({ name }: Field, given: string, hasPhones: boolean): Filter {
  const { numbers, rest } = hasPhones ? numbersIn(given) : { numbers: [], rest: given };
  const phones = numbers.map(({ written, digits }) =>
    any([searchFor(name, [written]), { kind: 'contains', field: 'phones', text: digits, at: 'anywhere' }]),
  );
  // Domains of addresses are stored in ASCII: `müller` also finds `ida@müller.example`.
  const texts = hasPhones ? new Set([rest, withAsciiLabels(rest)]) : [rest];
  return all(rest.trim() === '' && phones.length > 0 ? phones : [searchFor(name, texts), ...phones]);
}

function searchFor(field: string, texts: Iterable<string>): Filter {
  const parts = Array.from(texts, (text) => [...new Set(words(text))]).filter(hasWords);
  return any(parts.flatMap(spellingsOf).map((one) => ({ kind: 'search', field, words: one })));
}

const hasWords = (found: string[]): found is Words => found.length > 0;

const maxWordsInTwoSpellings = 3;

/**
 * Returns the words as they are, and with `a` for `ae`, `o` for `oe` and `u` for `ue`: `mueller` must find Müller, who
 * is stored as `muller`. Words of up to three letters are not changed, because they would find too much.
 */
function spellingsOf(given: Words): Words[] {
  const spelled = given.filter((word) => word.length > 3 && /[aou]e/.test(word)).slice(0, maxWordsInTwoSpellings);
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

export interface ListRequest {
  filters?: GivenFilters;
  order_by?: GivenOrder;
  paginate?: { page?: number; limit?: number; cursor?: string };
}

export interface RecordQuery {
  source: Source;
  customerId: string;
  filter: Filter;
  order: Order;
  limit: number;
  offset: number;
  after: Position | undefined;
  scope: string;
}

/**
 * Converts a valid request to a query.
 * @throws DomainError `validation_failed` if the cursor belongs to other filters or another order
 */
export function parseRecordQuery(source: Source, customerId: string, request: ListRequest): RecordQuery {
  const filter = parseFilters(source.fields, request.filters);
  const order = parseOrder(request.order_by);
  const scope = scopeOf(source.fields.noun, customerId, filter, order);
  const { paginate = {} } = request;
  const { page = 1, limit = defaultLimit } = paginate;
  const after = readPosition(scope, columnsOf(source, order), paginate, 'these filters and this order');
  return { source, customerId, filter, order, limit, offset: limit * (page - 1), after, scope };
}

export const columnsOf = (source: Source, order: Order): Column[] => order.map(({ field }) => source.columns[field]!);

/**
 * Returns the cursor for the header `x-next-cursor`, or undefined if the page is not full.
 * @param rows the rows of the page, as the response shows them
 */
export function nextCursor(query: RecordQuery, rows: readonly object[]): string | undefined {
  const last = rows.at(-1);
  if (!last || rows.length < query.limit) return undefined;
  return encodeCursor(query.scope, positionOf(query, last));
}

export const positionOf = ({ source, order }: RecordQuery, record: object): Position => ({
  id: (record as { id: string }).id,
  values: order.map(({ field }) => keyValue(source, record as Record<string, unknown>, field)),
});

function keyValue({ columns, alias }: Source, record: Record<string, unknown>, field: string): KeyValue {
  const path = alias === 'c' && field === 'company_id' ? ['company', 'id'] : field.split('.');
  const shown = path.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], record) as
    string | number | null;
  return columns[field]!.type === 'text' && shown !== null ? fold(String(shown)) : shown;
}
