import type { Database, Sql, Transaction } from '../database/db.ts';
import type { Position } from '../filters/cursor.ts';
import {
  hasManyWithoutTerms,
  isIndexable,
  isNewestFirst,
  manyOfNewest,
  moreOfNewest,
  usesCompany,
} from '../filters/narrowing.ts';
import {
  candidateCountClauses,
  candidatePageClauses,
  countClauses,
  newestPageClauses,
  pageClauses,
  type PageClauses,
} from '../filters/page-clauses.ts';
import { defaultOrder } from '../filters/order.ts';
import { nextCursor, positionOf, type RecordQuery } from '../filters/record-query.ts';
import { recorder, run } from '../filters/sql-recorder.ts';
import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { singleList, type Filter } from '../filters/tree.ts';
import type { Metadata } from '../schemas/wire.ts';
import { storedCountClauses, readCount, type Counted } from './counters.ts';
import { countChanging, countFilling } from './list-counts.ts';
import { readSettled, type SettledQuery } from './settled-reads.ts';

/** A page of records. `nextCursor` is the cursor for the next page, or undefined if no page follows. */
export interface RecordPage<Row> {
  rows: Row[];
  nextCursor: string | undefined;
}

/**
 * Reads the page of records that a query asks for.
 * @param projection returns the SQL columns to select
 */
export async function readRecordPage<Row extends object>(
  db: Database,
  listing: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<RecordPage<Row>> {
  const rows = await readRecords<Row>(db, laneOf(db, listing), listing, projection, readRows);
  return { rows, nextCursor: nextCursor(listing, rows) };
}

/**
 * Reads the records of one page of a query with the given strategy. The result is exact even while stored data is out
 * of date.
 */
const readRecords = <Row extends object>(
  db: Database,
  lane: Database['search'],
  listing: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
  strategy: typeof readRows,
): Promise<Row[]> =>
  readSettled(db, lane, listing, async (sql, reading) => {
    const found = await strategy(
      (page) =>
        run<Row>(
          sql,
          recorder`
        select ${projection(recorder)}
        from ${page.from}
        where ${reading.guard ? recorder`${reading.guard(recorder)} and` : recorder``} ${page.where}
        order by ${page.orderBy}
        limit ${page.limit}`,
        ),
      sql,
      reading,
    );
    return reading.guard && found.length === 0 ? undefined : found;
  });

/**
 * Reads a page by continuing after the last record of the previous page. All pages together then read each of the
 * customer's records once. The candidates that an index selects would be read again for each page.
 */
const readOn: typeof readRows = (read, _sql, reading) => read(pageClauses(recorder, reading));

/**
 * Number of records that an export reads with one statement: a page. At most two pages are in memory at the same time.
 */
export const exportPage = 500;

/**
 * Reads all records that match a query, page by page. Each page is a statement of its own, so no transaction stays
 * open, and other requests of the customer get their turn between two pages. Each record is read as it is at the time
 * of its page. The first page has been read when this function returns; the next one is read while the caller works on
 * a page.
 * @param listing its limit, page and cursor are ignored
 */
export async function readAllRecords<Row extends object>(
  db: Database,
  listing: RecordQuery,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<AsyncGenerator<Row[]>> {
  const read = (after: Position | undefined): Promise<Row[]> =>
    readRecords(db, db.search, { ...listing, limit: exportPage, offset: 0, after }, projection, readOn);
  return followPages(await read(undefined), (last) => read(positionOf(listing, last)));
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

/** Number of matching records among the newest at which more of the newest are read, before an index is used. */
const fairlyMany = 5;

/**
 * Reads a page in the cheapest way. If an index can select candidates (records that may pass the filter), looks at the
 * newest records first: many of them may pass, and then the index would select too many candidates.
 */
async function readRows<Row>(
  read: (page: PageClauses) => Promise<Row[]>,
  sql: Sql | Transaction,
  reading: SettledQuery,
): Promise<Row[]> {
  if (!(await canNarrow(sql, reading))) return read(pageClauses(recorder, reading));
  if (!isNewestFirst(reading))
    return read(
      (await isCommon(sql, reading)) ? pageClauses(recorder, reading) : candidatePageClauses(recorder, reading),
    );
  let rows = await read(newestPageClauses(recorder, reading));
  if (rows.length >= fairlyMany && rows.length < reading.limit)
    rows = await read(newestPageClauses(recorder, reading, moreOfNewest));
  return rows.length === reading.limit ? rows : read(candidatePageClauses(recorder, reading));
}

/**
 * Returns whether a listing should read only the candidates that an index selects. If many records have no search
 * terms, nearly all of them would be candidates.
 */
async function canNarrow(sql: Sql | Transaction, listing: SettledQuery): Promise<boolean> {
  if (!isIndexable(recorder, listing)) return false;
  const [row] = await run<{ many: boolean }>(sql, recorder`select ${hasManyWithoutTerms(recorder, listing)} as many`);
  return !row!.many;
}

/** Returns whether many of the customer's newest records pass the filter of a listing. */
async function isCommon(sql: Sql | Transaction, listing: RecordQuery): Promise<boolean> {
  const { from, where, limit } = newestPageClauses(recorder, {
    ...listing,
    order: defaultOrder,
    after: undefined,
    offset: 0,
    limit: manyOfNewest,
  });
  const rows = await run(sql, recorder`select from ${from} where ${where} limit ${limit}`);
  return rows.length === manyOfNewest;
}

/**
 * Returns the number of records that match a query, and the number of their pages.
 * @param everything the counter that stores the number of all records of this kind; it is read if the query has no
 *   filter
 */
export async function countRecordPages(db: Database, listing: RecordQuery, everything: Counted): Promise<Metadata> {
  if (asksForAll(listing.filter)) {
    const total = await db.lookup((sql) => readCount(sql, listing.customerId, everything));
    return metadataOf(total, listing);
  }
  const total = await readSettled(db, laneOf(db, listing), listing, (sql, reading) => countSettled(sql, reading));
  return metadataOf(total, listing);
}

/**
 * Returns the number of records that match a query, or undefined if `guard` of the query is false: then stored data may
 * be out of date.
 */
async function countSettled(sql: Sql | Transaction, reading: SettledQuery): Promise<number | undefined> {
  const { customerId, changing, filling, guard } = reading;
  if (filling) return (await countFilling(sql, customerId, [{ ...filling, filled_to: null }])).get(filling.id);
  if (changing) return (await countChanging(sql, customerId, [changing])).get(changing.id);
  const list = singleList(reading.filter);
  const { total, from, where } =
    list === undefined ? await countOfMatches(sql, reading) : storedCountClauses(recorder, customerId, list);
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

/**
 * Returns the SQL clauses that count the records. They read only the candidates that an index selects, if that is
 * cheaper.
 */
async function countOfMatches(sql: Sql | Transaction, reading: SettledQuery) {
  const isByIndex =
    (await canNarrow(sql, reading)) && !(usesCompany(reading.source, reading.filter) && (await isCommon(sql, reading)));
  return {
    total: recorder`count(*)`,
    ...(isByIndex ? candidateCountClauses(recorder, reading) : countClauses(recorder, reading)),
  };
}

/** Returns the number of records and pages in the form of the API's responses. Without records, `total_pages` is 0. */
export const metadataOf = (total: number, { limit, offset }: Pick<RecordQuery, 'limit' | 'offset'>): Metadata => ({
  pagination: {
    current_page: offset / limit + 1,
    total_records: total,
    total_pages: Math.ceil(total / limit),
  },
});

/** Largest offset (number of skipped records) at which reading a page is still cheap. */
const shallow = 1_000;

/**
 * Returns the group of database connections to use for a query. The first pages of all records, or of one list, are
 * cheap and have their own group, so that expensive filters cannot delay them.
 */
function laneOf(db: Database, { filter, order, offset }: RecordQuery): Database['search'] {
  const [key] = order;
  const isPlain = asksForAll(filter) || singleList(filter) !== undefined;
  return isPlain && offset <= shallow && order.length === 1 && key?.field === 'created_at' ? db.lookup : db.search;
}

const asksForAll = (filter: Filter): boolean => filter.kind === 'all' && filter.of.length === 0;
