import type { RecordPage } from '../records/paging.ts';
import type { Database, Queryable } from '../../database/db.ts';
import { isLongText, withLongTexts, type Position } from '../../filters/cursor.ts';
import {
  firstOfNewest,
  hasManyWithoutTerms,
  isIndexable,
  isNewestFirst,
  manyOfNewest,
  moreOfNewest,
  filterUsesCompany,
} from '../../filters/paging/narrowing.ts';
import {
  candidateCountClauses,
  candidatePageClauses,
  countClauses,
  newestClauses,
  newestPageClauses,
  pageClauses,
  type PageClauses,
} from '../../filters/paging/page-clauses.ts';
import { defaultOrder } from '../../filters/order.ts';
import { longTextsOf } from '../../filters/paging/page-context.ts';
import { nextCursor, positionOf, type RecordQuery } from '../../filters/record-query.ts';
import { recorder, run } from '../../filters/sql-recorder.ts';
import { constant, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import { singleList, type Filter } from '../../filters/tree.ts';
import { storedCountClauses, readCount } from '../records/counters.ts';
import { countStale } from '../memberships/list-counts.ts';
import { readExactly, type ExactQuery } from '../memberships/stale-lists.ts';

/**
 * Reads one page of records: those that match the query, with its order and limit.
 * @param projection returns the SQL columns to select
 * @throws DomainError `validation_failed` if the cursor needs texts that its row no longer has
 */
export async function readRecordPage<Row extends object>(
  db: Database,
  request: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<RecordPage<Row>> {
  const query = await readLongTexts(db, request);
  const rows = await readRecords<Row>(db, laneOf(db, query), query, projection, readRows);
  return { rows, nextCursor: nextCursor(query, rows) };
}

/**
 * Returns the query with the long texts of its cursor, which has only their hashes. Reads them from the last row of the
 * previous page.
 */
export async function readLongTexts(db: Pick<Database, 'search'>, query: RecordQuery): Promise<RecordQuery> {
  const { after } = query;
  if (!after?.values.some(isLongText)) return query;
  const [row] = await db.search((sql) => run<{ texts: unknown[] }>(sql, longTextsOf(recorder, query, after)));
  return { ...query, after: withLongTexts(after, row?.texts) };
}

/**
 * Reads one page of records. The result is exact even if stored list memberships are out of date.
 * @param strategy builds the SQL statement and runs it
 */
const readRecords = <Row extends object>(
  db: Database,
  lane: Database['search'],
  query: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
  strategy: typeof readRows,
): Promise<Row[]> =>
  readExactly(db, lane, query, (sql, query) =>
    strategy((page) => readGuarded<Row>(sql, query, page, projection), sql, query),
  );

const statementOf = (page: PageClauses, projection: (sql: FragmentMaker) => Fragment): Fragment => recorder`
  select ${projection(recorder)}
  from ${page.from}
  where ${page.where}
  order by ${page.orderBy}
  limit ${page.limit}`;

/**
 * Reads a page. Returns undefined if the query's SQL condition `guard` is false, because stored
 * data may then be out of date.
 */
async function readGuarded<Row extends object>(
  sql: Queryable,
  { guard }: ExactQuery,
  page: PageClauses,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<Row[] | undefined> {
  const statement = statementOf(page, projection);
  if (!guard) return run<Row>(sql, statement);
  // The row of the guard tells an empty page from stored data that is out of date.
  const [first, ...others] = await run<Guarded>(
    sql,
    recorder`
      select guard.is_exact, page.*
      from (select ${guard(recorder)} as is_exact) guard
      left join lateral (select true as is_found, shown.* from (${statement}) shown where guard.is_exact) page on true`,
  );
  if (!first!.is_exact) return undefined;
  return first!.is_found ? ([first!, ...others].map(withoutGuard) as Row[]) : [];
}

/** A row of a guarded page. There is one row without a record if the page is empty. */
interface Guarded {
  is_exact: boolean;
  is_found: boolean | null;
}

const withoutGuard = ({ is_exact, is_found, ...row }: Guarded): object => {
  void [is_exact, is_found];
  return row;
};

/**
 * Reads a page of an export. Tests every record, without a search index: an export reads all pages, and it would be
 * slower to select candidates from an index for each page.
 */
const readOn: typeof readRows = (read, _sql, query) => read(pageClauses(recorder, query));

/**
 * Number of records in one page of an export. Each page is read by one statement, and at most two pages are in memory.
 */
export const exportPage = 500;

/**
 * Reads all records that match a query, as a generator of pages. Each page is a separate statement, so no transaction
 * stays open. The data may change between two pages. The next page is read while the caller processes the current one.
 * @param query the query. Its limit, page and cursor are ignored.
 * @returns the generator, after the first page was read
 */
export async function readAllRecords<Row extends object>(
  db: Database,
  query: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<AsyncGenerator<Row[]>> {
  const read = (after: Position | undefined): Promise<Row[]> =>
    readRecords(db, db.search, { ...query, limit: exportPage, offset: 0, after }, projection, readOn);
  return followPages(await read(undefined), (last) => read(positionOf(query, last)));
}

async function* followPages<Row>(first: Row[], readAfter: (last: Row) => Promise<Row[]>): AsyncGenerator<Row[]> {
  for (let page = first; ;) {
    const next = page.length < exportPage ? undefined : readAfter(page.at(-1)!);
    // It may fail while nobody waits for it. It is awaited below, unless the caller stops reading.
    next?.catch(() => undefined);
    yield page;
    if (!next) return;
    page = await next;
  }
}

export async function readCustomKeys(db: Database, query: RecordQuery, most: number): Promise<string[]> {
  const keys = constant(recorder, `jsonb_object_keys(${query.source.alias}.custom_fields)`);
  return readExactly(db, db.search, query, async (sql, exact) => {
    const { from, where } = countClauses(recorder, exact);
    const [row] = await run<{ keys: string[] }>(
      sql,
      recorder`
      select array(
        select distinct key
        from ${from}
        cross join lateral ${keys} as key
        where ${where}
        order by key
        limit ${most}::bigint
      ) as keys
      ${exact.guard ? recorder`where ${exact.guard(recorder)}` : recorder``}`,
    );
    return row?.keys;
  });
}

/**
 * Minimum number of matches that a search of the newest records must find before a larger number of the newest records
 * is searched. If the search finds fewer matches, an index is used. If the matches fill the page, neither is necessary.
 */
const fairlyMany = 5;

/**
 * Reads one page of records. If the sort order is newest first, it begins with a search of the newest records, which
 * fill the page if many of them match. Otherwise an index selects candidates (records that may match), and only the
 * candidates are tested. If no index can be used, or if many records match, tests all records.
 */
async function readRows<Row>(
  read: (page: PageClauses) => Promise<Row[] | undefined>,
  sql: Queryable,
  query: ExactQuery,
): Promise<Row[] | undefined> {
  const isNarrow = isIndexable(recorder, query);
  const isNewest = isNarrow && isNewestFirst(query);
  const isDone = (rows: Row[] | undefined) => rows === undefined || rows.length === query.limit;
  const first = isNewest ? await read(newestPageClauses(recorder, query)) : [];
  if (isDone(first)) return first;
  if (!isNarrow || !(await hasTerms(sql, query))) return read(pageClauses(recorder, query));
  if (first!.length >= fairlyMany) {
    const more = await read(newestPageClauses(recorder, query, moreOfNewest));
    if (isDone(more)) return more;
  }
  const isByIndex = isNewest || !(await isCommon(sql, query));
  return read((isByIndex ? candidatePageClauses : pageClauses)(recorder, query));
}

/**
 * Returns true if the index of search terms finds the customer's records. Returns false if too many records are not in
 * the index yet, because each of these records is also a candidate.
 */
async function hasTerms(sql: Queryable, query: ExactQuery): Promise<boolean> {
  const [row] = await run<{ many: boolean }>(sql, recorder`select ${hasManyWithoutTerms(recorder, query)} as many`);
  return !row!.many;
}

/** Returns true if at least `many` of the newest records match. */
async function isCommon(sql: Queryable, query: RecordQuery, many = manyOfNewest): Promise<boolean> {
  const { from, where } = newestClauses(recorder, { ...query, order: defaultOrder, after: undefined });
  const rows = await run(sql, recorder`select from ${from} where ${where} limit ${many}::bigint`);
  return rows.length === many;
}

/** How much longer it takes to read a record by its terms than in a scan of all. */
const costOfCandidate = 3;

/**
 * Returns how many of the newest records have to match so that a count up to `most` is cheaper without terms. Where a
 * share of all records matches, a scan reads `most / share` records until it ends, and terms select `total * share`.
 */
async function manyToCount(sql: Queryable, query: RecordQuery, most: number): Promise<number> {
  const total = await readCount(sql, query.customerId, query.source.table);
  const share = Math.sqrt(most / (costOfCandidate * Math.max(total, most)));
  return Math.max(manyOfNewest, Math.ceil(share * firstOfNewest(query)));
}

/**
 * Returns the number of records that match a query. If the query has no filter, this is the stored count.
 * @param most If more than `most` match, the result is `most` + 1. Costs no more than to find so many.
 */
export async function countRecords(db: Database, query: RecordQuery, most?: number): Promise<number> {
  const total = asksForAll(query.filter)
    ? await db.lookup((sql) => readCount(sql, query.customerId, query.source.table))
    : await readExactly(db, laneOf(db, query), query, (sql, exact) => countExactly(sql, exact, most));
  return Math.min(total, (most ?? Infinity) + 1);
}

/**
 * Returns the number of records that match a query. Returns undefined if the query's SQL condition `guard` is false,
 * because stored data may then be out of date.
 * @param most stop counting after one more than so many
 */
async function countExactly(sql: Queryable, query: ExactQuery, most?: number): Promise<number | undefined> {
  const { customerId, staleList, guard } = query;
  if (staleList) return (await countStale(sql, customerId, [staleList])).get(staleList.id);
  const list = singleList(query.filter);
  const { total, from, where } =
    list === undefined ? await countOfMatches(sql, query, most) : storedCountClauses(recorder, customerId, list);
  const [row] = await run<{ total: number }>(
    sql,
    recorder`
    select ${total} as total
    from ${from}
    where ${where}
    ${guard ? recorder`having ${guard(recorder)}` : recorder``}`,
  );
  return row?.total;
}

/** Returns the SQL clauses that count the matching records. Uses an index if this is cheaper. */
async function countOfMatches(sql: Queryable, query: ExactQuery, most?: number) {
  const isTooCommon = async () =>
    most === undefined
      ? filterUsesCompany(query.source, query.filter) && (await isCommon(sql, query))
      : isCommon(sql, query, await manyToCount(sql, query, most));
  const isByIndex = isIndexable(recorder, query) && (await hasTerms(sql, query)) && !(await isTooCommon());
  const clauses = isByIndex ? candidateCountClauses(recorder, query) : countClauses(recorder, query);
  if (most === undefined) return { total: recorder`count(*)`, ...clauses };
  return {
    total: recorder`count(*)`,
    from: recorder`(select 1 from ${clauses.from} where ${clauses.where} limit ${most + 1}::bigint) matching`,
    where: recorder`true`,
  };
}

/** Maximum offset (number of skipped records) at which a page is cheap to read. */
const shallow = 1_000;

/**
 * Returns the group of database connections for a query. Cheap queries (the first pages of all records, or of one list)
 * have their own group, so that expensive queries cannot delay them.
 */
function laneOf(db: Database, { filter, order, offset }: RecordQuery): Database['search'] {
  const [key] = order;
  const isPlain = asksForAll(filter) || singleList(filter) !== undefined;
  return isPlain && offset <= shallow && order.length === 1 && key?.field === 'created_at' ? db.lookup : db.search;
}

const asksForAll = (filter: Filter): boolean => filter.kind === 'all' && filter.of.length === 0;

export const readIds = (db: Database, query: RecordQuery, most: number): Promise<string[]> =>
  readExactly(db, db.search, query, async (sql, exact) => {
    const { from, where } = countClauses(recorder, exact);
    const id = constant(recorder, `${query.source.alias}.id`);
    const rows = await run<{ id: string }>(
      sql,
      recorder`
      select ${id}
      from ${from}
      where ${where}
      order by ${id}
      limit ${most}::bigint`,
    );
    return rows.map((row) => row.id);
  });
