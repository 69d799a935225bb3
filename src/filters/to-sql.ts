import { customKey } from '../schemas/filters.ts';
import { ofSource, searchedOf, foldRecord } from './columns.ts';
import type { Source, Folded, RecordFields, FilterValue, Column, Comparison, Filter } from './columns.ts';
import { liveCompanies, liveLists, constant, allOf, anyOf, type Fragment, type FragmentMaker } from './sql.ts';

/*
 * The search terms of a record are 32-bit hashes in the database column `terms`, with one GIN index for all customers:
 * - one term for each field and value, for equality;
 * - one term for each field and three consecutive UTF-16 units of its text (a trigram), for parts of texts;
 * - one term for each field whose text is too long to have trigrams.
 * Each hash includes the customer, so a customer's search never reads the index entries of another customer. Different
 * values can have the same hash. So terms only select candidates, and the filter's exact condition decides.
 */

/**
 * Returns the keys in `folded` that mark a record as up to date. No field has these names. There is one for the source's
 * `searchVersion` and one for each earlier version. Programs of an earlier version then do not compute the record again.
 */
export const marksOf = ofSource(({ searchVersion }): readonly string[] =>
  Array.from({ length: searchVersion }, (_, i) => (i === 0 ? mark : `${mark}${i + 1}`)),
);

const mark = 'indexed';

/** Length of the shortest text that the index can find (UTF-16 units). The index consists of trigrams. */
export const minTextLength = 3;

/**
 * Maximum length of a record's texts that are indexed in trigrams, the shortest first (UTF-16 units). More index
 * entries would make writes slow. Texts that `search` reads are always indexed, and do not count.
 */
export const maxIndexedText = 2_000;

/** Fields of other types than text that also have a search term for their value. */
const ownValues: Record<Source['alias'], readonly string[]> = {
  c: ['birth_year', 'assigned_to'],
  co: [],
  p: [],
  o: [],
  a: [],
};

export const termColumns = ({ alias }: Source): string[] => ['external_id', 'custom_fields', ...ownValues[alias]];

export const hasValueTerm = ({ alias, columns }: Source, field: string, value: FilterValue): boolean =>
  value !== '' &&
  (customKey(field) !== undefined || columns[field]?.isFolded === true || ownValues[alias].includes(field));

export const hasTextTerms = ({ columns }: Source, field: string): boolean =>
  customKey(field) !== undefined ||
  columns[field]?.isFolded === true ||
  ['external_id', 'search', 'phones'].includes(field);

const searchFields = ofSource((source): ReadonlySet<string> => new Set(['search', ...searchedOf(source)]));

export class Terms {
  readonly #alias: Source['alias'];
  readonly #seed: number;
  /**
   * Text fields that `search` reads. Their trigrams do not include the field, so one look-up finds a word in any of
   * them.
   */
  readonly #searched: ReadonlySet<string>;

  constructor(source: Source, customerId: string) {
    this.#alias = source.alias;
    this.#seed = hashText(source.alias === 'c' ? 17 : 19, customerId);
    this.#searched = searchFields(source);
  }

  ofRecord(folded: Folded, record: RecordFields): number[] {
    const terms = new Set<number>();
    const others: [field: string, text: string][] = [];
    for (const field in folded) {
      if (field.startsWith(mark)) continue;
      const text = folded[field]!;
      if (text !== '') terms.add(this.ofValue(field, text));
      if (this.#isSearched(field)) this.#addParts(terms, field, text);
      else others.push([field, text]);
    }
    const { external_id, custom_fields } = record;
    if (typeof external_id === 'string') others.push(['external_id', external_id]);
    this.#addPartsWithin(terms, others);
    for (const field of ownValues[this.#alias]) this.#addValue(terms, field, record[field]);
    for (const [key, value] of Object.entries((custom_fields ?? {}) as RecordFields))
      if (typeof value !== 'string') this.#addValue(terms, `custom_fields.${key}`, value);
    return [...terms];
  }

  /**
   * Returns the search term of a value: a hash that every record with this value in this field has.
   * @param value a text must be folded (lower case, no accents)
   */
  ofValue(field: string, value: FilterValue): number {
    // The number 1 and the text "1" of a custom field are different values.
    const type = { string: 1, number: 2, boolean: 3 }[typeof value as 'string' | 'number' | 'boolean'];
    return finish(hashText(murmurHash3Step(hashText(this.#seed, field), type), String(value)));
  }

  /**
   * Returns the search terms for the trigrams of `text` (each three consecutive characters). A record whose field
   * contains `text` has all of them, or else the term of `ofLongText`. Empty for a text of fewer than three characters.
   */
  ofPart(field: string, text: string): number[] {
    const terms = new Set<number>();
    this.#addParts(terms, field, text);
    return [...terms];
  }

  /**
   * Returns the search term of records whose text in this field is too long for trigrams. Undefined if the field's
   * texts are always indexed.
   */
  ofLongText(field: string): number | undefined {
    return this.#isSearched(field) ? undefined : finish(murmurHash3Step(hashText(this.#seed, field), 4));
  }

  #isSearched = (field: string): boolean => this.#searched.has(field);

  #addValue(terms: Set<number>, field: string, value: unknown): void {
    if (value !== null && value !== undefined) terms.add(this.ofValue(field, value as FilterValue));
  }

  #addPartsWithin(terms: Set<number>, texts: [field: string, text: string][]): void {
    const total = texts.reduce((length, [, text]) => length + text.length, 0);
    const shortestFirst = total > maxIndexedText ? texts.sort(([, a], [, b]) => a.length - b.length) : texts;
    let left = maxIndexedText;
    for (const [field, text] of shortestFirst) {
      left -= text.length;
      if (left >= 0) this.#addParts(terms, field, text);
      else terms.add(this.ofLongText(field)!);
    }
  }

  #addParts(terms: Set<number>, field: string, text: string): void {
    if (text.length < minTextLength) return;
    const seed = hashText(this.#seed, this.#isSearched(field) ? 'search' : field);
    for (let i = minTextLength - 1; i < text.length; i += 1) {
      const pair = text.charCodeAt(i - 2) | (text.charCodeAt(i - 1) << 16);
      terms.add(finish(murmurHash3Step(murmurHash3Step(seed, pair), text.charCodeAt(i))));
    }
  }
}

export const arrayLiteral = (terms: readonly number[]): string => `{${terms.join(',')}}`;

function hashText(seed: number, text: string): number {
  let hash = seed;
  for (let i = 0; i < text.length; i += 1) hash = murmurHash3Step(hash, text.charCodeAt(i));
  return hash;
}

function murmurHash3Step(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = hash ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

function finish(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Values of the columns by which filters find a record. Every statement that writes a record must write both. */
export interface SearchColumns {
  folded: Folded;
  /** An array literal of SQL. */
  terms: string;
}

export function searchColumnsOf(source: Source, customerId: string, record: RecordFields): SearchColumns {
  const folded = foldRecord(source, record);
  const terms = arrayLiteral(new Terms(source, customerId).ofRecord(folded, record));
  for (const mark of marksOf(source)) folded[mark] = 'yes';
  return { folded, terms };
}

type Test<K extends Filter['kind']> = Extract<Filter, { kind: K }>;
type FieldTest = Test<'in' | 'compare' | 'contains' | 'empty'>;

interface Printing {
  sql: FragmentMaker;
  source: Source;
  customerId: string;
}

/**
 * Converts a filter to an SQL condition. All values from callers become parameters. A condition on null is false, and
 * its negation is true.
 */
export const toSql = (sql: FragmentMaker, source: Source, customerId: string, filter: Filter): Fragment =>
  print({ sql, source, customerId }, filter);

function print(printing: Printing, filter: Filter): Fragment {
  const { sql } = printing;
  switch (filter.kind) {
    case 'all':
      return allOf(sql, printAll(printing, filter.of));
    case 'any':
      return anyOf(sql, printAll(printing, filter.of));
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
        const isCase = test.values.map((one) => constant(sql, cases[one ? 'true' : 'false']));
        return anyOf(sql, isCase);
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

function printSearch({ sql, source }: Printing, { words }: Test<'search'>): Fragment {
  const occurs = (word: string): Fragment => {
    const isIn = source.searched.map((text) => sql`${constant(sql, text)} like ${`%${escapeLike(word)}%`}`);
    return anyOf(sql, isIn);
  };
  return allOf(sql, words.map(occurs));
}

function printLinked({ sql, customerId }: Printing, test: FieldTest, { key, rows, id }: NonNullable<Column['linked']>) {
  const linked = sql`${constant(sql, `select ${rows}.customer_id =`)} ${customerId}::uuid`;
  const isAny = (more: Fragment) => sql`${constant(sql, key)} = any(array(${linked} ${more}))`;
  if (test.kind === 'in') return isAny(sql`and ${isOneOf(sql, constant(sql, id), test.values, 'uuid')}`);
  return sql`not (${isAny(sql``)})`;
}

/**
 * Returns the condition that a contact was added by hand to one of the lists. With `any`, deleted lists do not count.
 */
function printMembership({ sql, customerId }: Printing, { lists }: Test<'member'>): Fragment {
  const isOfList =
    lists === 'any'
      ? sql`m.list_id = any(array(select l.id from ${liveLists(sql, customerId)}))`
      : isOneOf(sql, sql`m.list_id`, lists, 'uuid');
  return sql`exists (select 1 from list_members m where m.customer_id = ${customerId}::uuid and m.contact_id = c.id and ${isOfList})`;
}

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
 * Returns a condition on the id instead of the creation time, because an id starts with that time. PostgreSQL can then
 * use the primary key.
 */
function printCreation({ sql, source }: Printing, test: FieldTest): Fragment {
  const id = constant(sql, `${source.alias}.id`);
  const from = (value: FilterValue, plus = 0): Fragment => sql`${firstIdOf(Date.parse(String(value)) + plus)}::uuid`;
  if (test.kind === 'in') {
    const isAt = test.values.map((value) => sql`(${id} >= ${from(value)} and ${id} < ${from(value, 1)})`);
    return anyOf(sql, isAt);
  }
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
 * Returns the SQL condition for a custom field. Values are compared only with stored values of the same type.
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
      return anyOf(sql, alternatives);
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
