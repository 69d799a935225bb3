import type { Position } from '../cursor.ts';
import { bound, limitAndOffset, type Clauses, type PageContext } from './page-context.ts';
import { columnsOf } from '../record-query.ts';
import { constant, type Fragment } from '../sql.ts';
import { firstIdOf } from '../to-sql.ts';

/** Fragments that depend on the sort key: the creation time or an indexed field. */
interface Ascent {
  value: Fragment;
  /** Value ascending, then id ascending. */
  scan: Fragment;
  /** The record has this sort value. */
  equals: (value: Fragment) => Fragment;
  /** The record's sort value is greater than that of `after`. */
  above: (after: Position) => Fragment;
  /** The record has the sort value of `after` and a lower id. */
  tied: (after: Position) => Fragment;
}

/** Sorts by an indexed field, ascending. */
export function indexAscending(paging: PageContext): Clauses {
  const { sql, listing, id } = paging;
  const value = constant(sql, columnsOf(listing.source, listing.order)[0]!.value);
  return ascending(paging, {
    value,
    scan: sql`${value}, ${id}`,
    equals: (other) => sql`${value} = ${other}`,
    above: (after) => sql`${value} > ${bound(paging, after, 0)}`,
    tied: (after) => sql`${value} = ${bound(paging, after, 0)} and ${id} < ${after.id}::uuid`,
  });
}

/** Scans the primary key, because an id starts with the time of creation. */
export function oldestFirst(paging: PageContext): Clauses {
  const { sql, id } = paging;
  const first = ({ values }: Position, plus: number) => sql`${firstIdOf(Date.parse(values[0] as string) + plus)}::uuid`;
  return ascending(paging, {
    value: sql`left(${id}::text, 13) collate "C"`,
    scan: id,
    equals: (time) =>
      sql`${id} between (${time} || '-0000-0000-000000000000')::uuid and (${time} || '-ffff-ffff-ffffffffffff')::uuid`,
    above: (after) => sql`${id} >= ${first(after, 1)}`,
    tied: (after) => sql`${id} >= ${first(after, 0)} and ${id} < ${after.id}::uuid`,
  });
}

function ascending(paging: PageContext, ascent: Ascent): Clauses {
  // No index has the order of the page: value ascending, id descending. So an ascending index scan first finds the last
  // value on the page (the edge). Then the records with that value are read by id descending. The cost stays small even
  // if a million records have the same value.
  const { sql, listing, id, owned } = paging;
  const ids = listing.after ? idsAfter(paging, ascent, listing.after) : idsFromStart(paging, ascent);
  return {
    where: sql`${owned} and ${id} = any(array(${ids}))`,
    orderBy: sql`${ascent.value}, ${id} desc`,
    limit: sql`${listing.limit}::bigint`,
  };
}

function idsFromStart(paging: PageContext, ascent: Ascent): Fragment {
  return paging.sql`
    with ${scan(paging, ascent, paging.matches)}
    select page.id
    from (${scanned(paging, ascent)}) page
    order by page.value, page.id desc
    limit ${limitAndOffset(paging)}`;
}

function idsAfter(paging: PageContext, ascent: Ascent, after: Position): Fragment {
  const { sql, matches } = paging;
  return sql`
    with ${scan(paging, ascent, sql`${matches} and ${ascent.above(after)}`)}
    select page.id
    from (${scanned(paging, ascent)} union all (${descent(paging, ascent, ascent.tied(after))})) page
    order by page.value, page.id desc
    limit ${limitAndOffset(paging)}`;
}

const max = ({ limit, offset }: PageContext['listing']): number => offset + limit;

/**
 * CTEs: `scan` has the ids and sort values of the skipped records and the page, `edge` the last sort value of `scan`,
 * or no row if `scan` is below its limit.
 */
const scan = ({ sql, listing, from, id }: PageContext, { value, scan }: Ascent, condition: Fragment): Fragment => sql`
    scan as materialized (
      select ${id} as id, ${value} as value
      from ${from}
      where ${condition}
      order by ${scan}
      limit ${max(listing)}::bigint
    ),
    edge as materialized (select max(value) as value from scan having count(*) = ${max(listing)}::bigint)`;

/** Reads the records that `scan` found. Those with the last sort value are read again, by id descending. */
const scanned = (paging: PageContext, ascent: Ascent): Fragment => paging.sql`
      select scan.id, scan.value
      from scan
      where scan.value is distinct from (select edge.value from edge)
      union all (${descent(paging, ascent, ascent.equals(paging.sql`(select edge.value from edge)`))})`;

/**
 * Reads filtered records by id descending.
 * @param condition all records that meet it must have the same sort value
 */
const descent = (
  { sql, listing, from, id, matches }: PageContext,
  { value }: Ascent,
  condition: Fragment,
): Fragment => sql`
      select ${id} as id, ${value} as value
      from ${from}
      where ${matches} and ${condition}
      order by ${id} desc
      limit ${max(listing)}::bigint`;
