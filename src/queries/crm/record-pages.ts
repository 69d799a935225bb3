import { finderOf, type RecordPage } from '../records/finders.ts';
import type { Database, Queryable } from '../../database/db.ts';
import { fromOf, ownedBy, defaultOrder, singleList, type Filter, type Source } from '../../filters/columns.ts';
import { isLongText, withLongTexts, type Position } from '../../filters/cursor.ts';
import {
  firstOfNewest,
  hasManyWithoutTerms,
  isIndexable,
  isNewestFirst,
  manyOfNewest,
  filterUsesCompany,
} from '../../filters/narrowing.ts';
import {
  candidateCountClauses,
  candidatePageClauses,
  countClauses,
  newestClauses,
  newestPageClauses,
  pageClauses,
  type PageClauses,
  longTextsOf,
} from '../../filters/page-clauses.ts';
import { nextCursor, positionOf, type RecordQuery, parseRecordQuery, type ListRequest } from '../../filters/parse.ts';
import { recorder, run, constant, commaList, type Fragment, type FragmentMaker } from '../../filters/sql.ts';
import { toSql } from '../../filters/to-sql.ts';
import { readTotals } from '../records/journal.ts';
import { resolveLists } from './list-members.ts';
import type { ExportedRecords } from '../../files/write-records.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import type { Metadata } from '../../schemas/wire.ts';
import { listDeclared } from '../records/custom-fields.ts';

export async function readRecordPage<Row extends object>(
  db: Database,
  request: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<RecordPage<Row>> {
  const query = await readLongTexts(db, await resolveLists(db, request));
  const rows = await poolOf(db, query)((sql) => readRows((page) => readPage<Row>(sql, page, projection), sql, query));
  return { rows, nextCursor: nextCursor(query, rows) };
}

export async function readLongTexts(db: Pick<Database, 'search'>, query: RecordQuery): Promise<RecordQuery> {
  const { after } = query;
  if (!after?.values.some(isLongText)) return query;
  const [row] = await db.search((sql) => run<{ texts: unknown[] }>(sql, longTextsOf(recorder, query, after)));
  return { ...query, after: withLongTexts(after, row?.texts) };
}

const readPage = <Row extends object>(
  sql: Queryable,
  page: PageClauses,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<Row[]> =>
  run<Row>(
    sql,
    recorder`
      select ${projection(recorder)}
      from ${page.from}
      where ${page.where}
      order by ${page.orderBy}
      limit ${page.limit}`,
  );

export const exportPage = 500;

/**
 * Reads all records that match a query, as a generator of pages. Each page is a separate statement, so the data may
 * change between two pages. The next page is read while the caller processes the current one.
 * @param request the query; its limit, page and cursor are ignored
 * @returns the generator, after the first page was read
 */
async function readAllRecords<Row extends object>(
  db: Database,
  request: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<AsyncGenerator<Row[]>> {
  const query = { ...(await resolveLists(db, request)), limit: exportPage, offset: 0 };
  // Without a search index: an export reads all pages, and to select candidates for each page would be slower.
  const read = (after: Position | undefined): Promise<Row[]> =>
    db.search((sql) => readPage<Row>(sql, pageClauses(recorder, { ...query, after }), projection));
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

async function readCustomKeys(db: Database, request: RecordQuery, max: number): Promise<string[]> {
  const query = await resolveLists(db, request);
  const keys = constant(recorder, `jsonb_object_keys(${query.source.alias}.custom_fields)`);
  const { from, where } = countClauses(recorder, query);
  const [row] = await db.search((sql) =>
    run<{ keys: string[] }>(
      sql,
      recorder`
      select array(
        select distinct key
        from ${from}
        cross join lateral ${keys} as key
        where ${where}
        order by key
        limit ${max}::bigint
      ) as keys`,
    ),
  );
  return row!.keys;
}

/**
 * Reads one page of records. A page of the newest records is first read from only the newest few. If they do not fill
 * it, reads the candidates of an index, or all records if many match or no index helps.
 */
async function readRows<Row>(read: (page: PageClauses) => Promise<Row[]>, sql: Queryable, query: RecordQuery) {
  const isNarrow = isIndexable(recorder, query);
  const isNewest = isNarrow && isNewestFirst(query);
  const first = isNewest ? await read(newestPageClauses(recorder, query)) : [];
  if (first.length === query.limit) return first;
  if (!isNarrow || !(await hasTerms(sql, query))) return read(pageClauses(recorder, query));
  const isByIndex = isNewest || !(await isCommon(sql, query));
  return read((isByIndex ? candidatePageClauses : pageClauses)(recorder, query));
}

async function hasTerms(sql: Queryable, query: RecordQuery): Promise<boolean> {
  const [row] = await run<{ many: boolean }>(sql, recorder`select ${hasManyWithoutTerms(recorder, query)} as many`);
  return !row!.many;
}

async function isCommon(sql: Queryable, query: RecordQuery, many = manyOfNewest): Promise<boolean> {
  const { from, where } = newestClauses(recorder, { ...query, order: defaultOrder, after: undefined });
  const rows = await run(sql, recorder`select from ${from} where ${where} limit ${many}::bigint`);
  return rows.length === many;
}

/** Cost of reading a record by its search terms, relative to reading it in a scan of all records. */
const costOfCandidate = 3;

// A scan reads `max / share` records until it ends, where `share` is the share of matching records. Terms select
// `total * share` records.
/**
 * Returns the number of matches among the newest records from which on a scan of all records counts faster than search
 * terms do.
 * @param max the count stops at `max` + 1
 */
async function manyToCount(sql: Queryable, query: RecordQuery, max: number): Promise<number> {
  const total = (await totalOf(sql, query)) ?? 0;
  const share = Math.sqrt(max / (costOfCandidate * Math.max(total, max)));
  return Math.max(manyOfNewest, Math.ceil(share * firstOfNewest(query)));
}

async function totalOf(sql: Queryable, { source: { table }, customerId }: RecordQuery): Promise<number | undefined> {
  return table === 'contacts' || table === 'companies' ? (await readTotals(sql, customerId))[table] : undefined;
}

/**
 * Counts the records that match a query. Without a filter, returns the stored number of records.
 * @param max the count stops at `max` + 1
 */
export async function countRecords(db: Database, request: RecordQuery, max?: number): Promise<number> {
  const query = await resolveLists(db, request);
  const stored = asksForAll(query.filter) ? await db.lookup((sql) => totalOf(sql, query)) : undefined;
  const total = stored ?? (await db.search((sql) => countMatches(sql, query, max)));
  return Math.min(total, (max ?? Infinity) + 1);
}

export async function countMatches(sql: Queryable, query: RecordQuery, max?: number): Promise<number> {
  const list = singleList(query.filter);
  const { total, from, where } =
    list === undefined ? await countOfMatches(sql, query, max) : membersClauses(query.customerId, list);
  const [row] = await run<{ total: number }>(sql, recorder`select ${total} as total from ${from} where ${where}`);
  return row!.total;
}

/**
 * Maximum number of filters that one statement of `countEach` evaluates. With 50 rules each, it takes seconds for
 * 20,000 contacts.
 */
export const filtersAtOnce = 10;

/**
 * Returns for each filter the number of matching records. Reads all records of the customer, so use it only if they are
 * few.
 * @param query without a filter
 * @param filters filters in which `resolveLists` has replaced the lists
 */
export async function countEach(sql: Queryable, query: RecordQuery, filters: readonly Filter[]): Promise<number[]> {
  const counts: number[] = [];
  for (let first = 0; first < filters.length; first += filtersAtOnce) {
    const some = filters.slice(first, first + filtersAtOnce);
    const totals = some.map((filter, i) => {
      const matches = toSql(recorder, query.source, query.customerId, filter);
      return recorder`count(*) filter (where ${matches}) as ${constant(recorder, `total_${i}`)}`;
    });
    const withCompany = some.some((filter) => filterUsesCompany(query.source, filter));
    const from = fromOf(recorder, query.source, query.customerId, { withCompany });
    const { where } = countClauses(recorder, query);
    const statement = recorder`select ${commaList(recorder, totals)} from ${from} where ${where}`;
    const [row] = await run<Record<string, number>>(sql, statement);
    counts.push(...Object.values(row!));
  }
  return counts;
}

const membersClauses = (customerId: string, listId: string) => ({
  total: recorder`count(*)`,
  from: recorder`list_members`,
  where: recorder`customer_id = ${customerId}::uuid and list_id = ${listId}::uuid`,
});

async function countOfMatches(sql: Queryable, query: RecordQuery, max?: number) {
  const isTooCommon = async () =>
    max === undefined
      ? filterUsesCompany(query.source, query.filter) && (await isCommon(sql, query))
      : isCommon(sql, query, await manyToCount(sql, query, max));
  const isByIndex = isIndexable(recorder, query) && (await hasTerms(sql, query)) && !(await isTooCommon());
  const clauses = isByIndex ? candidateCountClauses(recorder, query) : countClauses(recorder, query);
  if (max === undefined) return { total: recorder`count(*)`, ...clauses };
  return {
    total: recorder`count(*)`,
    from: recorder`(select 1 from ${clauses.from} where ${clauses.where} limit ${max + 1}::bigint) matching`,
    where: recorder`true`,
  };
}

const shallow = 1_000;

/**
 * Returns the connection pool for a query. First pages of all records, or of a list without rules, use another pool
 * than expensive queries, which therefore cannot delay them.
 */
function poolOf(db: Database, { filter, order, offset }: RecordQuery): Database['search'] {
  const [key] = order;
  const isPlain = asksForAll(filter) || singleList(filter) !== undefined;
  return isPlain && offset <= shallow && order.length === 1 && key?.field === 'created_at' ? db.lookup : db.search;
}

const asksForAll = (filter: Filter): boolean => filter.kind === 'all' && filter.of.length === 0;

export async function readIds(db: Database, request: RecordQuery, max: number): Promise<string[]> {
  const query = await resolveLists(db, request);
  const { from, where } = countClauses(recorder, query);
  const id = constant(recorder, `${query.source.alias}.id`);
  const rows = await db.search((sql) =>
    run<{ id: string }>(
      sql,
      recorder`
      select ${id}
      from ${from}
      where ${where}
      order by ${id}
      limit ${max}::bigint`,
    ),
  );
  return rows.map((row) => row.id);
}

type Selection = Pick<ListRequest, 'filters' | 'order_by'>;

interface Shown extends Pick<ExportedRecords, 'fields' | 'title'> {
  source: Source;
  projection: (sql: FragmentMaker, customerId: string) => Fragment;
  listed?: (sql: FragmentMaker, customerId: string) => Fragment;
  detailed?: (sql: FragmentMaker, customerId: string) => Fragment;
  exported?: (sql: FragmentMaker, customerId: string) => Fragment;
  forPeople?: (sql: FragmentMaker, customerId: string) => Fragment;
}

export const recordReads = <Listed extends object, Detailed extends object = Listed>({
  source,
  projection,
  listed = projection,
  detailed = projection,
  exported = projection,
  forPeople = exported,
  fields,
  title,
}: Shown) => ({
  find: finderOf<Detailed>(
    (sql, customerId) => sql`
      select ${detailed(sql, customerId)}
      from ${fromOf(sql, source, customerId)}
      where ${ownedBy(sql, source, customerId)}
        and ${constant(sql, source.alias)}.id = wanted.id`,
  ),

  list: (db: Database, customerId: string, request: ListRequest): Promise<RecordPage<Listed>> =>
    readRecordPage(db, parseRecordQuery(source, customerId, request), (sql) => listed(sql, customerId)),

  count: async (db: Database, customerId: string, request: ListRequest): Promise<Metadata> => {
    const query = parseRecordQuery(source, customerId, request);
    const total = await countRecords(db, query);
    const { limit, offset } = query;
    return {
      pagination: {
        current_page: offset / limit + 1,
        total_records: total,
        total_pages: Math.ceil(total / limit),
      },
    };
  },

  countUpTo: (db: Database, customerId: string, filters: GivenFilters, max: number): Promise<number> =>
    countRecords(db, parseRecordQuery(source, customerId, { filters }), max),

  export: (db: Database, customerId: string, request: Selection): ExportedRecords => {
    const query = parseRecordQuery(source, customerId, request);
    return {
      fields,
      title,
      read: (isForPeople) => readAllRecords(db, query, (sql) => (isForPeople ? forPeople : exported)(sql, customerId)),
      count: () => countRecords(db, query),
      readKeys: async (max) => {
        const { table } = source;
        if (table !== 'contacts' && table !== 'companies') return [];
        const [keys, declared] = await Promise.all([
          readCustomKeys(db, query, max),
          db.lookup((sql) => listDeclared(sql, customerId, table)),
        ]);
        const labels = new Map(declared.map(({ key, label }) => [key, label]));
        return keys.map((key) => ({ key, label: labels.get(key) ?? key }));
      },
    };
  },
});
