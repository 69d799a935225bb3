import { ofRow, type Position } from './cursor.ts';
import { columnsOf, type RecordQuery } from './record-query.ts';
import { constant, type Fragment, type FragmentMaker } from './sql.ts';
import { parameter, shownValue, toSql, typeOf } from './to-sql.ts';

/** The clauses that choose a page's records: `where ${where} order by ${orderBy} limit ${limit}`. */
export interface Clauses {
  where: Fragment;
  orderBy: Fragment;
  /** The limit, followed by the offset if there is one. */
  limit: Fragment;
}

/** The query and the SQL fragments that all strategies for reading a page share. */
export interface PageContext {
  sql: FragmentMaker;
  listing: RecordQuery;
  /** The from clause of the page's statement. */
  from: Fragment;
  /** The id column of the records. */
  id: Fragment;
  /** Condition: the record belongs to the customer and is visible. */
  owned: Fragment;
  /** Condition: the record belongs to the customer, is visible and passes the filter. */
  matches: Fragment;
}

export function pageContextOf(sql: FragmentMaker, listing: RecordQuery): PageContext {
  const { source, customerId, filter } = listing;
  const ofCustomer = sql`${constant(sql, source.alias)}.customer_id = ${customerId}::uuid`;
  const owned = source.visible ? sql`${ofCustomer} and ${constant(sql, source.visible)}` : ofCustomer;
  return {
    sql,
    listing,
    from: constant(sql, source.from),
    id: constant(sql, `${source.alias}.id`),
    owned,
    matches: sql`${owned} and ${toSql(sql, source, filter)}`,
  };
}

/** Returns the page's limit and offset, as they follow the SQL keyword `limit`. */
export const limitAndOffset = ({ sql, listing }: PageContext): Fragment =>
  sql`${listing.limit}::bigint offset ${listing.offset}::bigint`;

/**
 * Returns the position's value of the i-th sort key: the value stored in the cursor, or a subquery by id if it was too
 * long for the cursor.
 */
export function bound({ sql, listing, from, id, owned }: PageContext, after: Position, i: number): Fragment {
  const column = columnsOf(listing.source, listing.order)[i]!;
  const value = after.values[i]!;
  if (value !== ofRow) return parameter(sql, value, typeOf(column));
  return sql`(select ${shownValue(sql, column)} from ${from} where ${owned} and ${id} = ${after.id}::uuid)`;
}
