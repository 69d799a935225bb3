import { indexAscending, oldestFirst } from './ascending.ts';
import { fromOf, type Column } from '../columns.ts';
import type { Position } from '../cursor.ts';
import { bound, pageContextOf, limitAndOffset, type Clauses, type PageContext } from './page-context.ts';
import {
  candidateConditionOf,
  filterUsesCompany,
  firstOfNewest,
  isCandidate,
  isNewestFirst,
  newestRows,
} from './narrowing.ts';
import { columnsOf, type RecordQuery } from '../record-query.ts';
import { indexed } from '../../schemas/filters.ts';
import { constant, join, type Fragment, type FragmentMaker } from '../sql.ts';
import { shownValue } from '../to-sql.ts';
import { singleList } from '../tree.ts';

/** `select … from ${from} where ${where} order by ${orderBy} limit ${limit}`. */
export interface PageClauses extends Clauses {
  /** With the company of each contact. */
  from: Fragment;
}

/** For the records that pass a filter, in any order: `from ${from} where ${where}`. */
type MatchClauses = Pick<PageClauses, 'from' | 'where'>;

/**
 * Reads one page. With a cursor and an indexed sort field, every page is equally fast. With a page number, the skipped
 * records are read too. Without an index, all filtered records are sorted.
 */
export function pageClauses(sql: FragmentMaker, query: RecordQuery): PageClauses {
  return pageOf(pageContextOf(sql, query), pickStrategy(query));
}

/**
 * Returns the SQL clauses that read one page of records, newest first. Unlike `pageClauses`, the SQL reads only the
 * customer's newest records, and stops when the page is full.
 * @param size the maximum number of newest records to read
 */
export function newestPageClauses(sql: FragmentMaker, query: RecordQuery, size = firstOfNewest(query)): PageClauses {
  const { source, customerId, offset } = query;
  const rows = newestRows(sql, query, size);
  const context = pageContextOf(sql, query, { rows });
  if (offset > 0) return pageOf(context, skipping(newestFirst));
  return { from: fromOf(sql, source, customerId, { rows }), ...newestFirst(context) };
}

/** Selects those of the newest records that pass the filter, in any order. */
export function newestClauses(sql: FragmentMaker, query: RecordQuery): MatchClauses {
  const { from, matches } = pageContextOf(sql, query, { rows: newestRows(sql, query, firstOfNewest(query)) });
  return { from, where: matches };
}

const pageOf = (context: PageContext, strategy: PageStrategy): PageClauses => ({
  from: fromOf(context.sql, context.query.source, context.query.customerId),
  ...strategy(context),
});

/** Like `pageClauses`, but reads only candidates. Fast if few records pass the filter. */
export function candidatePageClauses(sql: FragmentMaker, query: RecordQuery): PageClauses {
  return pageOf(
    pageContextOf(sql, query, { narrowed: isCandidate(sql, query) }),
    isNewestFirst(query) ? withOffset(query, newestFirst) : skipping(bySorting),
  );
}

export function countClauses(sql: FragmentMaker, query: RecordQuery): MatchClauses {
  const { from, matches } = pageContextOf(sql, query);
  return { from, where: matches };
}

/** Like `countClauses`, but reads only candidates. */
export function candidateCountClauses(sql: FragmentMaker, query: RecordQuery): MatchClauses {
  const { source, filter } = query;
  // Without a join the planner needs no help: it has one table and one index to choose.
  const narrowed = filterUsesCompany(source, filter) ? isCandidate(sql, query) : candidateConditionOf(sql, query);
  const { from, matches } = pageContextOf(sql, query, { narrowed });
  return { from, where: matches };
}

type PageStrategy = (context: PageContext) => Clauses;

function pickStrategy(query: RecordQuery): PageStrategy {
  const { source, order, filter } = query;
  const [first, second] = order;
  const isIndexed = !second && indexed(source.fields).includes(first!.field);
  if (isIndexed && first!.direction === 'ASC') return first!.field === 'created_at' ? oldestFirst : indexAscending;
  if (singleList(filter) !== undefined && !second && first!.field === 'created_at') return membersFirst;
  return isIndexed ? withOffset(query, descending(first!.field)) : skipping(bySorting);
}

/** Does not read the skipped records completely, if there are any. */
const withOffset = ({ offset }: RecordQuery, strategy: PageStrategy): PageStrategy =>
  offset > 0 ? skipping(strategy) : strategy;

/**
 * Selects only the ids of the page by `strategy`, then reads their records: skipped records are not read completely, and
 * only ids are sorted.
 */
const skipping =
  (strategy: PageStrategy): PageStrategy =>
  (context) => {
    const { sql, query, from, id, owned } = context;
    const { where, orderBy, limit } = strategy(context);
    const ids = sql`select ${id} from ${from} where ${where} order by ${orderBy} limit ${limit}`;
    return { where: sql`${owned} and ${id} = any(array(${ids}))`, orderBy, limit: sql`${query.limit}::bigint` };
  };

const descending = (field: string): PageStrategy => (field === 'created_at' ? newestFirst : indexDescending);

/** Scans the primary key backwards, because an id starts with the time of creation. */
const newestFirst: PageStrategy = (context) => {
  const { sql, query, id, matches } = context;
  const where = query.after ? sql`${matches} and ${id} < ${query.after.id}::uuid` : matches;
  return { where, orderBy: sql`${id} desc`, limit: limitAndOffset(context) };
};

/** Members of one list, newest first: scans the primary key of `list_members` backwards. */
const membersFirst: PageStrategy = (context) => {
  const { sql, query, id, owned } = context;
  // With a join, Postgres might scan all contacts until it finds members.
  const { after, customerId, filter } = query;
  const members = sql`
    select m.contact_id
    from list_members m
    where m.customer_id = ${customerId}::uuid and m.list_id = ${singleList(filter)!}::uuid
      ${after ? sql`and m.contact_id < ${after.id}::uuid` : sql``}
    order by m.contact_id desc
    limit ${limitAndOffset(context)}`;
  return {
    where: sql`${owned} and ${id} = any(array(${members}))`,
    orderBy: sql`${id} desc`,
    limit: sql`${query.limit}::bigint`,
  };
};

/** Scans an index backwards, from the last row of the previous page on. */
const indexDescending: PageStrategy = (context) => {
  const { sql, query, id, matches } = context;
  const { after } = query;
  const value = constant(sql, columnsOf(query.source, query.order)[0]!.value);
  return {
    where: after ? sql`${matches} and (${value}, ${id}) < (${bound(context, after, 0)}, ${after.id}::uuid)` : matches,
    orderBy: sql`${value} desc, ${id} desc`,
    limit: limitAndOffset(context),
  };
};

/** For an order that no index has: sorts all filtered records. */
const bySorting: PageStrategy = (context) => {
  const { sql, query, id, matches } = context;
  const keys = columnsOf(query.source, query.order).map((column, i) => {
    const direction = query.order[i]!.direction.toLowerCase();
    return sql`${shownValue(sql, column)} ${constant(sql, isNullable(column) ? `${direction} nulls last` : direction)}`;
  });
  return {
    where: query.after ? sql`${matches} and ${isAfter(context, query.after, 0)}` : matches,
    orderBy: sql`${join(sql, keys, ',', '')}, ${id} desc`,
    limit: limitAndOffset(context),
  };
};

const isNullable = (column: Column): boolean => !column.required && column.shownAs === undefined;

/**
 * Condition: the record comes after the previous page. Compares the sort keys from index `i` on, and finally the id.
 * @param after the last row of the previous page
 */
function isAfter(context: PageContext, after: Position, i: number): Fragment {
  const { sql, query, id } = context;
  const { order, source } = query;
  if (i === order.length) return sql`${id} < ${after.id}::uuid`;
  const column = columnsOf(source, order)[i]!;
  const value = shownValue(sql, column);
  const rest = isAfter(context, after, i + 1);
  if (after.values[i] === null) return sql`(${value} is null and ${rest})`;
  const position = bound(context, after, i);
  const beyond = sql`${value} ${constant(sql, order[i]!.direction === 'ASC' ? '>' : '<')} ${position}`;
  const nulls = isNullable(column) ? sql`or ${value} is null` : sql``;
  return sql`(${beyond} ${nulls} or (${value} = ${position} and ${rest}))`;
}
