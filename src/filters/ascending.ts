import type { Position } from './cursor.ts';
import { bound, limitAndOffset, type Clauses, type PageContext } from './page-context.ts';
import { columnsOf } from './record-query.ts';
import { constant, type Fragment } from './sql.ts';
import { firstIdOf } from './to-sql.ts';

/**
 * The parts of a page in ascending order that depend on the sort key.
 *
 * Sorts by value ascending, id descending; no index has that order, because an index ascends in both. The page is read
 * in two steps: an ascending scan finds the value that the page ends with (the edge); then that value's records are
 * read by id descending, so the cost stays small even if a million records share the value. The records that share the
 * position's value are read by id descending too.
 */
interface Ascent {
  value: Fragment;
  /** Sort order of the index scan: value and id, both ascending. */
  scan: Fragment;
  /** Returns the condition that a record has the given value. */
  equals: (value: Fragment) => Fragment;
  /** Returns the condition that a record's value is above the position's value. */
  above: (after: Position) => Fragment;
  /** Returns the condition that a record has the position's value and a lower id. */
  tied: (after: Position) => Fragment;
}

/** Returns the SQL clauses of a page in ascending order of an indexed field. */
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

/**
 * Returns the SQL clauses of a page with the oldest records first. The sort value is the id's timestamp as text; the index
 * is the primary key.
 */
export function oldestFirst(paging: PageContext): Clauses {
  const { sql, id } = paging;
  const first = ({ values }: Position, plus: number) => sql`${firstIdOf(Date.parse(String(values[0])) + plus)}::uuid`;
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
 * CTEs `scan` and `edge`. `scan` reads as many records in ascending order as the page can need. `edge` is the last
 * value it read, or no row if the records ended first.
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

/** Selects the scanned records below the edge, and the edge's records with the highest ids. */
const scanned = (paging: PageContext, ascent: Ascent): Fragment => paging.sql`
      select scan.id, scan.value
      from scan
      where scan.value is distinct from (select edge.value from edge)
      union all (${descent(paging, ascent, ascent.equals(paging.sql`(select edge.value from edge)`))})`;

/** Selects the records that meet `condition`, all of one value, by id descending. */
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
