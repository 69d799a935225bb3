import { customKey } from '../schemas/filters.ts';
import type { Column, Source } from './columns.ts';
import { liveCompanies, liveLists } from './live.ts';
import { constant, join, type Fragment, type FragmentMaker } from './sql.ts';
import type { Comparison, Filter, FilterValue } from './tree.ts';

type Test<K extends Filter['kind']> = Extract<Filter, { kind: K }>;
type FieldTest = Test<'in' | 'compare' | 'contains' | 'empty'>;

interface Printing {
  sql: FragmentMaker;
  source: Source;
  customerId: string;
}

/** All values from callers become parameters. A condition on null is false, and its negation true. */
export const toSql = (sql: FragmentMaker, source: Source, customerId: string, filter: Filter): Fragment =>
  print({ sql, source, customerId }, filter);

function print(printing: Printing, filter: Filter): Fragment {
  const { sql } = printing;
  switch (filter.kind) {
    case 'all':
      if (filter.of.length === 0) return constant(sql, 'true');
      return sql`(${join(sql, printAll(printing, filter.of), 'and', 'true')})`;
    case 'any':
      return sql`(${join(sql, printAll(printing, filter.of), 'or', 'false')})`;
    case 'not':
      return sql`(${print(printing, filter.of)}) is not true`;
    case 'search':
      return printSearch(printing, filter);
    case 'member':
      return printMembership(printing, filter);
    default:
      return printFieldTest(printing, filter);
  }
}

const printAll = (printing: Printing, filters: Filter[]): Fragment[] =>
  filters.map((filter) => print(printing, filter));

function printFieldTest(printing: Printing, test: FieldTest): Fragment {
  const key = customKey(test.field);
  if (key !== undefined) return printCustom(printing, test, key);
  if (test.field === 'created_at') return printCreation(printing, test);
  if (test.field === 'company_or_its_contacts') return printOfCompanies(printing, test as Test<'in'>);
  const column = printing.source.columns[test.field];
  if (!column) throw new Error(`There is no column for the field ${test.field}`);
  return printColumn(printing, test, column);
}

function printColumn(printing: Printing, test: FieldTest, column: Column): Fragment {
  const { sql } = printing;
  if (column.linked) return printLinked(printing, test, column.linked);
  const value = constant(sql, column.value);
  const shown = shownValue(sql, column);
  switch (test.kind) {
    case 'in':
      if (column.cases) {
        const { cases } = column;
        return sql`(${join(
          sql,
          test.values.map((one) => constant(sql, cases[one ? 'true' : 'false'])),
          'or',
          'false',
        )})`;
      }
      if (column.key !== undefined)
        return sql`(${isOneOf(sql, constant(sql, column.key), test.values, typeOf(column))} and ${value} is not null)`;
      // Uses the bare value, without coalesce, if `shownAs` is not among the values: then an index can be used.
      return isOneOf(
        sql,
        column.shownAs !== undefined && test.values.includes(column.shownAs) ? shown : value,
        test.values,
        typeOf(column),
      );
    case 'compare':
      return sql`${shown} ${constant(sql, symbols[test.operator])} ${parameter(sql, test.value, typeOf(column))}`;
    case 'contains':
      return sql`${shown} like ${likePattern(test)}`;
    default:
      return column.type === 'text' ? sql`coalesce(${constant(sql, column.raw)}, '') = ''` : sql`${value} is null`;
  }
}

/** Returns the value as responses show it, which for some fields is not null where the column is. */
export function shownValue(sql: FragmentMaker, column: Column): Fragment {
  if (column.shownAs === undefined) return constant(sql, column.value);
  return sql`coalesce(${constant(sql, column.value)}, ${constant(sql, `'${column.shownAs}'`)})`;
}

const symbols: Record<Comparison, string> = { gt: '>', gte: '>=', lt: '<', lte: '<=' };

type SqlType = 'text' | 'integer' | 'timestamptz' | 'uuid' | 'numeric';

export const typeOf = (column: Column): SqlType => {
  if (column.type === 'instant') return 'timestamptz';
  if (column.type === 'number') return 'numeric';
  return column.type === 'integer' || column.type === 'uuid' ? column.type : 'text';
};

export const parameter = (sql: FragmentMaker, value: FilterValue, type: SqlType): Fragment =>
  sql`${String(value)}::${constant(sql, type)}`;

function isOneOf(sql: FragmentMaker, value: Fragment, among: FilterValue[], type: SqlType): Fragment {
  if (among.length === 0) return sql`false`;
  if (among.length === 1) return sql`${value} = ${parameter(sql, among[0]!, type)}`;
  return sql`${value} = any(${among.map(String)}::${constant(sql, type)}[])`;
}

function likePattern({ text, at }: Test<'contains'>): string {
  return `${at === 'start' ? '' : '%'}${escapeLike(text)}${at === 'end' ? '' : '%'}`;
}

const escapeLike = (text: string): string => text.replaceAll(/[\\%_]/g, String.raw`\$&`);

/** Each word must occur in at least one of the searched texts. */
function printSearch({ sql, source }: Printing, { words }: Test<'search'>): Fragment {
  const occurs = (word: string): Fragment =>
    sql`(${join(
      sql,
      source.searched.map((text) => sql`${constant(sql, text)} like ${`%${escapeLike(word)}%`}`),
      'or',
      'false',
    )})`;
  return sql`(${join(sql, words.map(occurs), 'and', 'true')})`;
}

/** The record has one of these ids, or any, in rows of another table. */
function printLinked(
  { sql, customerId }: Printing,
  test: FieldTest,
  { key, rows, id }: NonNullable<Column['linked']>,
): Fragment {
  const linked = sql`${constant(sql, `select ${rows}.customer_id =`)} ${customerId}::uuid`;
  const isAny = (more: Fragment) => sql`${constant(sql, key)} = any(array(${linked} ${more}))`;
  if (test.kind === 'in') return isAny(sql`and ${isOneOf(sql, constant(sql, id), test.values, 'uuid')}`);
  return sql`not (${isAny(sql``)})`;
}

/** The contact was added by hand to one of the lists. Rows of deleted lists stay for a while. */
function printMembership({ sql, customerId }: Printing, { lists }: Test<'member'>): Fragment {
  const isOfList =
    lists === 'any'
      ? sql`m.list_id = any(array(select l.id from ${liveLists(sql, customerId)}))`
      : isOneOf(sql, sql`m.list_id`, lists, 'uuid');
  return sql`exists (select 1 from list_members m where m.customer_id = ${customerId}::uuid and m.contact_id = c.id and ${isOfList})`;
}

/** The activity is of one of these companies, or of a contact of one. */
function printOfCompanies({ sql, customerId }: Printing, { values }: Test<'in'>): Fragment {
  const companies = sql`array(
    select co.id
    from ${liveCompanies(sql, customerId)}
      and co.id = any(${values.map(String)}::uuid[])
  )`;
  const contacts = sql`array(
    select c.id
    from contacts c
    where c.customer_id = ${customerId}::uuid
      and c.company_id = any(${companies})
  )`;
  return sql`(a.company_id = any(${companies}) or a.contact_id = any(${contacts}))`;
}

/**
 * Converts a condition on the creation to one on the id, which starts with that time: PostgreSQL can use the primary
 * key.
 */
function printCreation({ sql, source }: Printing, test: FieldTest): Fragment {
  const id = constant(sql, `${source.alias}.id`);
  const from = (value: FilterValue, plus = 0): Fragment => sql`${firstIdOf(Date.parse(String(value)) + plus)}::uuid`;
  if (test.kind === 'in')
    return sql`(${join(
      sql,
      test.values.map((value) => sql`(${id} >= ${from(value)} and ${id} < ${from(value, 1)})`),
      'or',
      'false',
    )})`;
  if (test.kind === 'empty') return sql`false`;
  if (test.kind !== 'compare') throw new Error(`The field created_at does not support the condition ${test.kind}`);
  const { operator, value } = test;
  return operator === 'gt' || operator === 'gte'
    ? sql`${id} >= ${from(value, operator === 'gt' ? 1 : 0)}`
    : sql`${id} < ${from(value, operator === 'lte' ? 1 : 0)}`;
}

/**
 * Returns the lowest id (UUID version 7) of a record created at a given time.
 * @param milliseconds since 1970; an earlier time counts as 1970
 */
export function firstIdOf(milliseconds: number): string {
  const time = Math.max(milliseconds, 0).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

/**
 * Returns the condition on a custom field, as SQL. A number is compared with stored numbers only, a text with texts only,
 * and so on.
 * @param key name of the custom field
 */
function printCustom({ sql, source }: Printing, test: FieldTest, key: string): Fragment {
  const kept = sql`${constant(sql, source.alias)}.custom_fields`;
  const text = sql`(${constant(sql, source.alias)}.folded ->> ${`custom_fields.${key}`}::text) collate "C"`;
  const ofNumber = (condition: Fragment): Fragment =>
    sql`case when jsonb_typeof(${kept} -> ${key}::text) = 'number' then ${condition} else false end`;
  const number = sql`(${kept} ->> ${key}::text)::numeric`;
  switch (test.kind) {
    case 'in': {
      const ofType = (type: string): FilterValue[] => test.values.filter((value) => typeof value === type);
      const [strings, numbers, booleans] = [ofType('string'), ofType('number'), ofType('boolean')];
      const alternatives = [
        ...(strings.length > 0 ? [isOneOf(sql, text, strings, 'text')] : []),
        ...(numbers.length > 0 ? [ofNumber(isOneOf(sql, number, numbers, 'numeric'))] : []),
        ...booleans.map((value) => sql`${kept} -> ${key}::text = ${String(value)}::text::jsonb`),
      ];
      return sql`(${join(sql, alternatives, 'or', 'false')})`;
    }
    case 'compare': {
      const symbol = constant(sql, symbols[test.operator]);
      return typeof test.value === 'number'
        ? ofNumber(sql`${number} ${symbol} ${parameter(sql, test.value, 'numeric')}`)
        : sql`${text} ${symbol} ${parameter(sql, test.value, 'text')}`;
    }
    case 'contains':
      return sql`${text} like ${likePattern(test)}`;
    default:
      return sql`coalesce(${kept} ->> ${key}::text, '') = ''`;
  }
}
