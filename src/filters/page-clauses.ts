import { isLongText, type Position } from './cursor.ts';
import { fromOf, ownedBy, type Column, singleList } from './columns.ts';
import {
  usesCompany,
  candidateCondition,
  filterUsesCompany,
  firstOfNewest,
  isNewestFirst,
  newestRows,
} from './narrowing.ts';
import { columnsOf, type RecordQuery } from './parse.ts';
import { constant, commaList, type Fragment, type FragmentMaker } from './sql.ts';
import { parameter, shownValue, toSql, typeOf, firstIdOf } from './to-sql.ts';
import { indexed } from '../schemas/filters.ts';

interface Clauses {
  where: Fragment;
  orderBy: Fragment;
  limit: Fragment;
}

interface PageContext {
  sql: FragmentMaker;
  query: RecordQuery;
  from: Fragment;
  id: Fragment;
  owned: Fragment;
  matches: Fragment;
}

interface Restriction {
  /** Additional SQL condition that the records must meet. */
  narrowed?: Fragment | undefined;
  /** The records to read, as SQL for a `from` clause. Default: the table. */
  rows?: Fragment;
}

/** Returns the SQL fragments that all statements for a page use. */
function pageContextOf(sql: FragmentMaker, query: RecordQuery, { narrowed, rows }: Restriction = {}): PageContext {
  const { source, customerId, filter } = query;
  const owned = ownedBy(sql, source, customerId);
  return {
    sql,
    query,
    from: fromOf(sql, source, customerId, { withCompany: usesCompany(query), ...(rows ? { rows } : {}) }),
    id: constant(sql, `${source.alias}.id`),
    owned,
    matches: sql`${owned} and ${narrowed ? sql`${narrowed} and ` : sql``}${toSql(sql, source, customerId, filter)}`,
  };
}

const limitAndOffset = ({ sql, query }: PageContext): Fragment =>
  sql`${query.limit}::bigint offset ${query.offset}::bigint`;

function bound({ sql, query }: PageContext, after: Position, i: number): Fragment {
  const value = after.values[i]!;
  if (isLongText(value)) throw new Error('The long texts of the cursor were not read');
  return parameter(sql, value, typeOf(columnsOf(query.source, query.order)[i]!));
}

/**
 * Returns SQL that reads the texts that the cursor contains only as hashes. The row has an array with one element for
 * each sort key. There is no row if the record was deleted.
 */
export function longTextsOf(sql: FragmentMaker, query: RecordQuery, after: Position): Fragment {
  const { from, owned, id } = pageContextOf(sql, query);
  const texts = columnsOf(query.source, query.order).map((column, i) =>
    isLongText(after.values[i]) ? shownValue(sql, column) : constant(sql, 'null::text'),
  );
  return sql`select array[${commaList(sql, texts)}] as texts from ${from} where ${owned} and ${id} = ${after.id}::uuid`;
}

interface Ascent {
  value: Fragment;
  scan: Fragment;
  equals: (value: Fragment) => Fragment;
  above: (after: Position) => Fragment;
  tied: (after: Position) => Fragment;
}

function indexAscending(context: PageContext): Clauses {
  const { sql, query, id } = context;
  const value = constant(sql, columnsOf(query.source, query.order)[0]!.value);
  return ascending(context, {
    value,
    scan: sql`${value}, ${id}`,
    equals: (other) => sql`${value} = ${other}`,
    above: (after) => sql`${value} > ${bound(context, after, 0)}`,
    tied: (after) => sql`${value} = ${bound(context, after, 0)} and ${id} < ${after.id}::uuid`,
  });
}

/**
 * Returns clauses for a page sorted by creation time, oldest first. They scan the primary key, because each id starts
 * with the creation time.
 */
function oldestFirst(context: PageContext): Clauses {
  const { sql, id } = context;
  const first = ({ values }: Position, plus: number) => sql`${firstIdOf(Date.parse(values[0] as string) + plus)}::uuid`;
  return ascending(context, {
    value: sql`left(${id}::text, 13) collate "C"`,
    scan: id,
    equals: (time) =>
      sql`${id} between (${time} || '-0000-0000-000000000000')::uuid and (${time} || '-ffff-ffff-ffffffffffff')::uuid`,
    above: (after) => sql`${id} >= ${first(after, 1)}`,
    tied: (after) => sql`${id} >= ${first(after, 0)} and ${id} < ${after.id}::uuid`,
  });
}

function ascending(context: PageContext, ascent: Ascent): Clauses {
  // No index has the order of the page: value ascending, id descending. So an ascending index scan first finds the last
  // value on the page (the edge). Then the records with that value are read by id descending. The cost stays small even
  // if a million records have the same value.
  const { sql, query, id, owned, matches } = context;
  const { after } = query;
  const tied = after ? sql`union all (${descent(context, ascent, ascent.tied(after))})` : sql``;
  const ids = sql`
    with ${scan(context, ascent, after ? sql`${matches} and ${ascent.above(after)}` : matches)}
    select page.id
    from (${scanned(context, ascent)} ${tied}) page
    order by page.value, page.id desc
    limit ${limitAndOffset(context)}`;
  return {
    where: sql`${owned} and ${id} = any(array(${ids}))`,
    orderBy: sql`${ascent.value}, ${id} desc`,
    limit: sql`${query.limit}::bigint`,
  };
}

const max = ({ limit, offset }: PageContext['query']): number => offset + limit;

/**
 * Returns two CTEs. `scan` has the ids and sort values of all records up to the end of the page. `edge` has the last of
 * these sort values, or no row if the records do not fill the page.
 */
const scan = ({ sql, query, from, id }: PageContext, { value, scan }: Ascent, condition: Fragment): Fragment => sql`
    scan as materialized (
      select ${id} as id, ${value} as value
      from ${from}
      where ${condition}
      order by ${scan}
      limit ${max(query)}::bigint
    ),
    edge as materialized (select max(value) as value from scan having count(*) = ${max(query)}::bigint)`;

/**
 * Selects the records that `scan` found. Reads the records with the last sort value again, sorted by id, descending.
 */
const scanned = (context: PageContext, ascent: Ascent): Fragment => context.sql`
      select scan.id, scan.value
      from scan
      where scan.value is distinct from (select edge.value from edge)
      union all (${descent(context, ascent, ascent.equals(context.sql`(select edge.value from edge)`))})`;

const descent = ({ sql, query, from, id, matches }: PageContext, { value }: Ascent, condition: Fragment) => sql`
      select ${id} as id, ${value} as value
      from ${from}
      where ${matches} and ${condition}
      order by ${id} desc
      limit ${max(query)}::bigint`;

export interface PageClauses extends Clauses {
  from: Fragment;
}

type MatchClauses = Pick<PageClauses, 'from' | 'where'>;

/**
 * Returns the SQL clauses that read one page. With a cursor and an indexed sort field, all pages are equally fast.
 * Without an index, all filtered records are sorted.
 */
export function pageClauses(sql: FragmentMaker, query: RecordQuery): PageClauses {
  return pageOf(pageContextOf(sql, query), pickStrategy(query));
}

/**
 * Returns the SQL clauses that read one page from the customer's newest records, newest first. The statement stops when
 * the page is full.
 * @param size maximum number of newest records to read
 */
export function newestPageClauses(sql: FragmentMaker, query: RecordQuery, size = firstOfNewest(query)): PageClauses {
  const { source, customerId, offset } = query;
  const rows = newestRows(sql, query, size);
  const context = pageContextOf(sql, query, { rows });
  if (offset > 0) return pageOf(context, skipping(newestFirst));
  return { from: fromOf(sql, source, customerId, { rows }), ...newestFirst(context) };
}

export const newestClauses = (sql: FragmentMaker, query: RecordQuery): MatchClauses =>
  countClauses(sql, query, { rows: newestRows(sql, query, firstOfNewest(query)) });

const pageOf = (context: PageContext, strategy: PageStrategy): PageClauses => ({
  from: fromOf(context.sql, context.query.source, context.query.customerId),
  ...strategy(context),
});

export function candidatePageClauses(sql: FragmentMaker, query: RecordQuery): PageClauses {
  return pageOf(
    pageContextOf(sql, query, { narrowed: candidateCondition(sql, query, { byId: true }) }),
    isNewestFirst(query) ? withOffset(query, newestFirst) : skipping(bySorting),
  );
}

export function countClauses(sql: FragmentMaker, query: RecordQuery, only?: Restriction): MatchClauses {
  const { from, matches } = pageContextOf(sql, query, only);
  return { from, where: matches };
}

export const candidateCountClauses = (sql: FragmentMaker, query: RecordQuery): MatchClauses =>
  countClauses(sql, query, {
    // Without a join the planner needs no help: it has one table and one index to choose.
    narrowed: candidateCondition(sql, query, { byId: filterUsesCompany(query.source, query.filter) }),
  });

type PageStrategy = (context: PageContext) => Clauses;

function pickStrategy(query: RecordQuery): PageStrategy {
  const { source, order, filter } = query;
  const [first, second] = order;
  const isIndexed = !second && indexed(source.fields).includes(first!.field);
  if (isIndexed && first!.direction === 'ASC') return first!.field === 'created_at' ? oldestFirst : indexAscending;
  if (singleList(filter) !== undefined && !second && first!.field === 'created_at') return membersFirst;
  return isIndexed ? withOffset(query, descending(first!.field)) : skipping(bySorting);
}

const withOffset = ({ offset }: RecordQuery, strategy: PageStrategy): PageStrategy =>
  offset > 0 ? skipping(strategy) : strategy;

/**
 * Returns a strategy that first selects only the ids of the page, then reads their records. Records on earlier pages
 * are then never read completely.
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

const newestFirst: PageStrategy = (context) => {
  const { sql, query, id, matches } = context;
  const where = query.after ? sql`${matches} and ${id} < ${query.after.id}::uuid` : matches;
  return { where, orderBy: sql`${id} desc`, limit: limitAndOffset(context) };
};

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

const bySorting: PageStrategy = (context) => {
  const { sql, query, id, matches } = context;
  const keys = columnsOf(query.source, query.order).map((column, i) => {
    const direction = query.order[i]!.direction.toLowerCase();
    return sql`${shownValue(sql, column)} ${constant(sql, isNullable(column) ? `${direction} nulls last` : direction)}`;
  });
  return {
    where: query.after ? sql`${matches} and ${isAfter(context, query.after, 0)}` : matches,
    orderBy: sql`${commaList(sql, keys)}, ${id} desc`,
    limit: limitAndOffset(context),
  };
};

const isNullable = (column: Column): boolean => !column.required && column.shownAs === undefined;

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
