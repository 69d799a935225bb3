import { isLongText, type Position } from '../cursor.ts';
import { fromOf } from '../columns.ts';
import { usesCompany } from './narrowing.ts';
import { columnsOf, type RecordQuery } from '../record-query.ts';
import { constant, join, type Fragment, type FragmentMaker } from '../sql.ts';
import { parameter, shownValue, toSql, typeOf } from '../to-sql.ts';

/** `where ${where} order by ${orderBy} limit ${limit}`. */
export interface Clauses {
  where: Fragment;
  orderBy: Fragment;
  /** What stands after `limit`: the most rows to return, and `offset` with the number of rows to skip, if any. */
  limit: Fragment;
}

export interface PageContext {
  sql: FragmentMaker;
  query: RecordQuery;
  /** With what the filter and the order need. */
  from: Fragment;
  id: Fragment;
  /** The record belongs to the customer, and callers may see it. */
  owned: Fragment;
  matches: Fragment;
}

/**
 * Returns the SQL fragments that every statement for a page uses.
 * @param narrowed an additional SQL condition that the page's records must meet
 * @param rows the SQL of the records to read, for a `from` clause. By default, the table.
 */
export function pageContextOf(
  sql: FragmentMaker,
  query: RecordQuery,
  { narrowed, rows }: { narrowed?: Fragment | undefined; rows?: Fragment } = {},
): PageContext {
  const { source, customerId, filter } = query;
  const ofCustomer = sql`${constant(sql, source.alias)}.customer_id = ${customerId}::uuid`;
  const owned = source.visible ? sql`${ofCustomer} and ${constant(sql, source.visible)}` : ofCustomer;
  return {
    sql,
    query,
    from: fromOf(sql, source, customerId, { withCompany: usesCompany(query), ...(rows ? { rows } : {}) }),
    id: constant(sql, `${source.alias}.id`),
    owned,
    matches: sql`${owned} and ${narrowed ? sql`${narrowed} and ` : sql``}${toSql(sql, source, customerId, filter)}`,
  };
}

export const limitAndOffset = ({ sql, query }: PageContext): Fragment =>
  sql`${query.limit}::bigint offset ${query.offset}::bigint`;

/**
 * Returns the i-th sort value as SQL.
 * @param after the last row of the previous page, with its long texts
 */
export function bound({ sql, query }: PageContext, after: Position, i: number): Fragment {
  const value = after.values[i]!;
  if (isLongText(value)) throw new Error('The long texts of the cursor were not read');
  return parameter(sql, value, typeOf(columnsOf(query.source, query.order)[i]!));
}

/**
 * Reads the texts of which the cursor has only hashes, as an array with an element for each sort key. No row if the
 * last row of the previous page was deleted.
 */
export function longTextsOf(sql: FragmentMaker, query: RecordQuery, after: Position): Fragment {
  const { from, owned, id } = pageContextOf(sql, query);
  const texts = columnsOf(query.source, query.order).map((column, i) =>
    isLongText(after.values[i]) ? shownValue(sql, column) : constant(sql, 'null::text'),
  );
  return sql`select array[${join(sql, texts, ',', '')}] as texts from ${from} where ${owned} and ${id} = ${after.id}::uuid`;
}
