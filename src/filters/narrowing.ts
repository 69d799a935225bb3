import { customKey } from '../schemas/filters.ts';
import { companySource, type Source, all, any, type Filter, hasCompany, fieldsOf } from './columns.ts';
import { liveCompanies, allOf, anyOf, constant, type Fragment, type FragmentMaker } from './sql.ts';
import { arrayLiteral, hasTextTerms, hasValueTerm, marksOf, minTextLength, Terms, toSql } from './to-sql.ts';
import { highestId, lowestId } from '../database/connection.ts';
import type { RecordQuery } from './parse.ts';

type Test<K extends Filter['kind']> = Extract<Filter, { kind: K }>;

interface Printing {
  sql: FragmentMaker;
  source: Source;
  customerId: string;
  terms: Terms;
}

/**
 * SQL that selects the candidates of a filter: all records that pass it, and perhaps others. `ids` is set if the
 * condition compares with an array of ids: without an index scan, that takes each record times each id.
 */
interface Candidates {
  condition: Fragment;
  ids?: Fragment;
}

/**
 * Returns the SQL condition that selects the candidates of a filter. Undefined if no index helps.
 * @param byId true: the condition compares with an array of ids. The planner expects an array to have few ids, so it
 *   reads these records by id, in any order and join
 */
export function candidateCondition(
  sql: FragmentMaker,
  { source, customerId, filter }: Pick<RecordQuery, 'source' | 'customerId' | 'filter'>,
  { byId = false } = {},
): Fragment | undefined {
  if (source.searchVersion === 0) return undefined;
  const printing = { sql, source, customerId, terms: new Terms(source, customerId) };
  const narrowed = print(printing, filter);
  if (!narrowed) return undefined;
  const rest = constant(sql, withoutTerms(source));
  if (!narrowed.ids && !byId) return sql`(${narrowed.condition} or ${rest})`;
  return isAnyOf(printing, [narrowed.ids ?? idsThat(printing, narrowed.condition), idsThat(printing, rest)]).condition;
}

/**
 * Returns the SQL condition for records that an older version of this program wrote, so that `folded` and `terms` are
 * missing or outdated. A partial index covers these records.
 */
export const withoutTerms = (source: Source): string =>
  `(${source.alias}.folded ->> '${marksOf(source).at(-1)}') is null`;

function print(printing: Printing, filter: Filter): Candidates | undefined {
  const { sql } = printing;
  switch (filter.kind) {
    case 'all':
      return printAll(printing, filter.of);
    case 'any': {
      const parts = filter.of.map((one) => print(printing, one));
      if (parts.length === 0 || !parts.every((part) => part !== undefined)) return undefined;
      if (parts.every(({ ids }) => ids === undefined)) return { condition: anyOf(sql, conditionsOf(parts)) };
      return isAnyOf(
        printing,
        parts.map(({ condition, ids }) => ids ?? idsThat(printing, condition)),
      );
    }
    case 'in':
      return filter.values.length === 0 ? undefined : printIn(printing, filter);
    case 'contains':
      return filter.text.length < minTextLength ? undefined : printPart(printing, filter);
    case 'search':
      return printSearch(printing, filter);
    case 'member':
      return printMembers(printing, filter);
    default:
      return undefined;
  }
}

/** Fields whose conditions use a b-tree index instead of search terms. */
const ownIndexes: Record<Source['alias'], readonly string[]> = {
  c: ['id', 'external_id', 'score', 'verification_status'],
  co: ['id', 'external_id', 'domain', 'score', 'verification_status'],
  p: [],
  o: [],
  a: [],
};

function printIn(printing: Printing, test: Test<'in'>): Candidates | undefined {
  const { sql, source, customerId, terms } = printing;
  const { field, values } = test;
  if (ownIndexes[source.alias].includes(field)) return { condition: toSql(sql, source, customerId, test) };
  if (source.alias === 'c' && field === 'company_id')
    return { condition: sql`c.company_id = any(${values.map(String)}::uuid[])` };
  const ofCompany = companyFilterOf(printing, test);
  if (ofCompany) return values.includes('') ? undefined : printCompanies(printing, ofCompany);
  if (!values.every((value) => hasValueTerm(source, field, value))) return undefined;
  const hashes = values.map((value) => terms.ofValue(field, value));
  if (hashes.length > fewValues) return hasOneOf(printing, hashes);
  const hasTerm = hashes.map((hash) => hasTerms(printing, [hash]));
  return { condition: anyOf(sql, hasTerm) };
}

const conditionsOf = (parts: Candidates[]): Fragment[] => parts.map(({ condition }) => condition);

function printPart(printing: Printing, test: Test<'contains'>): Candidates | undefined {
  const ofCompany = companyFilterOf(printing, test);
  if (ofCompany) return printCompanies(printing, ofCompany);
  if (!hasTextTerms(printing.source, test.field)) return undefined;
  const parts = hasParts(printing, test.field, test.text);
  const long = printing.terms.ofLongText(test.field);
  return { condition: long === undefined ? parts : printing.sql`(${parts} or ${hasTerms(printing, [long])})` };
}

/**
 * Maximum number of values that one index scan looks up. For more, PostgreSQL expects so many records that it also reads
 * the ids of all records of the customer.
 */
const fewValues = 10;

const companyField = (field: string): string | undefined =>
  field.startsWith('company.') && customKey(field) === undefined ? field.slice('company.'.length) : undefined;

/**
 * Maximum number of words of a search that are looked up in the index, the longest first. The filter's exact condition
 * then checks all words.
 */
const maxWords = 3;

function printSearch(printing: Printing, { words }: Test<'search'>): Candidates | undefined {
  const { sql, source } = printing;
  const long = words.filter((word) => word.length >= minTextLength);
  const asked = long.toSorted((a, b) => b.length - a.length).slice(0, maxWords);
  if (asked.length === 0) return undefined;
  const hasWords = asked.map((word) => hasParts(printing, 'search', word));
  const own = allOf(sql, hasWords);
  return source.alias === 'co' ? { condition: own } : isAnyOf(printing, searchedWithCompany(printing, asked, own));
}

/**
 * Returns statements that together select the contacts for a search. A contact is selected if it has all words, if the
 * name of its company has all words, or if each of the two has at least one.
 * @param hasAll SQL condition: the contact has all words
 */
function searchedWithCompany(printing: Printing, words: string[], hasAll: Fragment): Fragment[] {
  const { sql } = printing;
  const named = (word: string): Filter => ({ kind: 'contains', field: 'company_name', text: word, at: 'anywhere' });
  const shared = words.flatMap((word) => {
    const others = words.filter((other) => other !== word).map(named);
    if (others.length === 0) return [];
    return [idsOfCompanies(printing, companiesThat(printing, any(others)), hasParts(printing, 'search', word))];
  });
  const hasCompany = sql`c.company_id = any(array(${companiesThat(printing, all(words.map(named)))}))`;
  return [idsThat(printing, hasAll), idsThat(printing, hasCompany), ...shared];
}

/**
 * Selects the contacts of the given companies that also meet the condition `own`. Reads all contacts of the companies
 * if the companies are few, otherwise all contacts that meet `own`. A count in the SQL decides, so only one of the two
 * parts runs.
 */
function idsOfCompanies(printing: Printing, companies: Fragment, own: Fragment): Fragment {
  const { sql } = printing;
  const isOfThese = sql`c.company_id in (select these.id from these)`;
  const isFew = sql`(select count(*) between 1 and ${fewCompanies}::bigint from these)`;
  const isMany = sql`(select count(*) > ${fewCompanies}::bigint from these)`;
  // With `is true` the second statement does not join the companies, whose contacts it would read.
  return sql`(
    with these as materialized (${companies})
    ${idsThat(printing, sql`${isFew} and ${own} and ${isOfThese}`)}
    union all ${idsThat(printing, sql`${isMany} and ${own} and (${isOfThese}) is true`)}
  )`;
}

function printMembers({ sql, customerId }: Printing, { lists }: Test<'member'>): Candidates | undefined {
  if (lists === 'any') return undefined;
  const ids = sql`
    select m.contact_id
    from list_members m
    where m.customer_id = ${customerId}::uuid
      and m.list_id = any(${lists}::uuid[])`;
  return { condition: sql`c.id = any(array(${ids}))`, ids };
}

const hasParts = (printing: Printing, field: string, text: string): Fragment =>
  hasTerms(printing, printing.terms.ofPart(field, text));

const hasTerms = ({ sql, source }: Printing, terms: readonly number[]): Fragment =>
  containsAll(sql, source.alias, sql`${arrayLiteral(terms)}::integer[]`);

// The planner assumes that 0.5 % of all records have a given term, and would also read the ids of all records of the
// customer to exclude some. Before the table is analysed, that takes 12 ms instead of 0.4 for a value that none of
// 40,000 contacts has. For two conditions it expects 0.0025 %. The plan tests do not count these index entries.
/**
 * Returns the SQL condition that a record has all search terms of an array. The condition is written twice, so that
 * PostgreSQL expects few matches and uses the index of terms alone.
 */
function containsAll(sql: FragmentMaker, alias: string, terms: Fragment): Fragment {
  const column = constant(sql, `${alias}.terms`);
  return sql`(${column} @> ${terms} and ${terms} <@ ${column})`;
}

function hasOneOf({ sql, source, customerId }: Printing, terms: readonly number[]): Candidates {
  // Each term is looked up separately, because the planner assumes that most records meet an array overlap (`&&`).
  const ids = sql`
    select one.id
    from unnest(${arrayLiteral(terms)}::integer[]) as wanted (term)
    cross join lateral (
      select t.id
      from ${constant(sql, source.table)} t
      where t.customer_id = ${customerId}::uuid
        and ${containsAll(sql, 't', sql`array[wanted.term]`)}
      offset 0
    ) one`;
  return { condition: sql`${constant(sql, source.alias)}.id = any(array(${ids}))`, ids };
}

const fewCompanies = 200;

function printAll(printing: Printing, filters: Filter[]): Candidates | undefined {
  const { sql } = printing;
  const companies = filters.flatMap((filter) => {
    const candidates = companyFilterOf(printing, filter) && print(printing, filter);
    return candidates ? [{ candidates, filter: companyFilterOf(printing, filter)! }] : [];
  });
  const others = filters.filter((filter) => !companyFilterOf(printing, filter));
  const parts = others.map((filter) => print(printing, filter)).filter((part) => part !== undefined);
  const [first] = companies;
  if (parts.length === 0) return first?.candidates;
  // Records of an array of ids are read anyway, so their terms select nothing more.
  const arrays = parts.filter(({ ids }) => ids !== undefined);
  const used = arrays.length > 0 ? arrays : parts;
  if (used.length === 1 && !first) return used[0];
  const own = allOf(sql, conditionsOf(used));
  if (!first || others.some(({ kind }) => kind === 'search'))
    return { condition: own, ...(arrays.length > 0 && { ids: idsThat(printing, own) }) };
  const count = sql`(select count(*) from (${companiesThat(printing, first.filter)} limit ${fewCompanies + 1}::bigint) few)`;
  return isAnyOf(printing, [
    idsThat(printing, sql`${count} <= ${fewCompanies}::bigint and ${first.candidates.condition}`),
    idsThat(printing, sql`${count} > ${fewCompanies}::bigint and ${own}`),
  ]);
}

function companyFilterOf({ source }: Printing, filter: Filter): Test<'in'> | Test<'contains'> | undefined {
  if (source.alias !== 'c' || (filter.kind !== 'in' && filter.kind !== 'contains')) return undefined;
  const field = companyField(filter.field);
  return field === undefined ? undefined : { ...filter, field };
}

/**
 * Joins statements that each select some of the candidates. PostgreSQL can use a different index for each statement.
 */
function isAnyOf({ sql, source }: Printing, [first, ...more]: Fragment[]): Candidates {
  const ids = more.reduce((statements, one) => sql`${statements} union all ${one}`, first!);
  return { condition: sql`${constant(sql, source.alias)}.id = any(array(${ids}))`, ids };
}

const idsThat = ({ sql, source, customerId }: Printing, condition: Fragment): Fragment => {
  const alias = constant(sql, source.alias);
  return sql`
    select ${alias}.id
    from ${constant(sql, `${source.table} ${source.alias}`)}
    where ${alias}.customer_id = ${customerId}::uuid
      and ${condition}`;
};

const printCompanies = (printing: Printing, filter: Filter): Candidates => ({
  condition: printing.sql`c.company_id = any(array(${companiesThat(printing, filter)}))`,
});

function companiesThat({ sql, customerId }: Printing, filter: Filter): Fragment {
  const candidates = candidateCondition(sql, { source: companySource, customerId, filter }) ?? constant(sql, 'true');
  return sql`
    select co.id
    from ${liveCompanies(sql, customerId)}
      and ${candidates}
      and ${toSql(sql, companySource, customerId, filter)}`;
}

/*
 * Two ways to read fewer records than the customer has:
 * - the newest records: enough for a page of a filter that many records pass;
 * - the candidates that indexes select: cheap for a filter that few records pass.
 * How many records pass is not known, and statistics do not tell it for one customer. So the newest are tried first.
 */

/**
 * Number of newest records that a list request reads first. If too few of them pass the filter, the request uses an
 * index.
 */
export const maxNewest = 5_000;

/** Like `maxNewest`, for filters that also read each contact's company, which takes twice as long. */
const newestWithCompany = 2_000;

/**
 * Minimum number of matches among the newest records from which on a request reads all records instead of using search
 * terms. With so many matches, the index would select too many records.
 */
export const manyOfNewest = 40;

export const isNewestFirst = ({ order }: RecordQuery): boolean =>
  order.length === 1 && order[0]!.field === 'created_at' && order[0]!.direction === 'DESC';

export const isIndexable = (sql: FragmentMaker, query: RecordQuery): boolean =>
  candidateCondition(sql, query) !== undefined && !isSelective(query.filter);

/** Fields with a b-tree index whose values are each shared by few records. */
const selectiveFields = new Set([
  'id',
  'external_id',
  'company_id',
  'work_email',
  'last_name',
  'company_name',
  'domain',
]);

const isSelective = (filter: Filter): boolean =>
  filter.kind === 'all' ? filter.of.some(isSelective) : filter.kind === 'in' && selectiveFields.has(filter.field);

/**
 * Maximum number of records without search terms up to which a request uses the index of search terms. The request then
 * also reads these records. An upgrade from a version without terms leaves many, until a worker has added the terms.
 */
const manyWithoutTerms = 5_000;

export function hasManyWithoutTerms(sql: FragmentMaker, { source, customerId, filter }: RecordQuery): Fragment {
  const many = (of: Source): Fragment => sql`exists (
    select 1
    from ${constant(sql, `${of.table} ${of.alias}`)}
    where ${constant(sql, of.alias)}.customer_id = ${customerId}::uuid
      and ${constant(sql, withoutTerms(of))}
    offset ${manyWithoutTerms}::bigint
  )`;
  return filterUsesCompany(source, filter) ? sql`${many(source)} or ${many(companySource)}` : many(source);
}

export const usesCompany = ({ source, filter, order }: RecordQuery): boolean =>
  hasCompany(source) &&
  (filterUsesCompany(source, filter) || order.some(({ field }) => source.columns[field]?.isOfCompany));

export const filterUsesCompany = (source: Source, filter: Filter): boolean =>
  hasCompany(source) &&
  [...fieldsOf(filter)].some((field) => field === 'search' || source.columns[field]?.isOfCompany === true);

export const firstOfNewest = (query: RecordQuery): number => (usesCompany(query) ? newestWithCompany : maxNewest);

/**
 * Returns a subquery for a `from` clause: the customer's newest `size` records, newest first. With a cursor and the
 * default order, it starts after the cursor.
 */
export function newestRows(sql: FragmentMaker, query: RecordQuery, size: number): Fragment {
  const { source, customerId, after } = query;
  const end = after && isNewestFirst(query) ? sql`< (select ${after.id}::uuid)` : sql`<= (select ${highestId}::uuid)`;
  // The planner does not know the results of the subqueries for the bounds, and expects few records between them. So it
  // reads these records in the order of the primary key. Otherwise it might read all records of the customer and sort
  // them. No index with a filtered field also has `updated_at`: from an index that has all columns of a statement, such
  // as `verification_status` and `id`, the planner would read all entries of the customer.
  return sql`(
    select newest.*
    from ${constant(sql, source.table)} newest
    where newest.customer_id = ${customerId}::uuid
      and newest.id >= (select ${lowestId}::uuid)
      and newest.id ${end}
    order by newest.id desc, newest.updated_at
    limit ${size}::bigint
  ) ${constant(sql, source.alias)}`;
}
