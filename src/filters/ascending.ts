import type { Position } from './cursor.ts';
import { columnsOf } from './listing.ts';
import { bound, slice, type Clauses, type Paging } from './paging.ts';
import { constant, type Fragment } from './sql.ts';
import { firstIdOf } from './to-sql.ts';

/**
 * What a page ascends by. Values ascend while ids descend within one value, which no index does: an index ascends in
 * both. But where its ascending scan ends tells the value that the page ends in, and the records of that value, be they
 * a million, can be read from the highest id down. So can those that share the value of the position.
 */
interface Ascent {
  value: Fragment;
  /** Order of an index by value and id, both ascending. */
  scan: Fragment;
  /** The value is this one. */
  equals: (value: Fragment) => Fragment;
  /** The value is above the position's. */
  above: (after: Position) => Fragment;
  /** The value is the position's, and the id is lower. */
  tied: (after: Position) => Fragment;
}

/** Ascending by an indexed field. */
export function indexAscending(paging: Paging): Clauses {
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

/** Oldest first: the value is the time within the id, as text; its index is the primary key. */
export function oldestFirst(paging: Paging): Clauses {
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

function ascending(paging: Paging, ascent: Ascent): Clauses {
  const { sql, listing, id, owned } = paging;
  const ids = listing.after ? idsAfter(paging, ascent, listing.after) : idsFromStart(paging, ascent);
  return {
    where: sql`${owned} and ${id} = any(array(${ids}))`,
    orderBy: sql`${ascent.value}, ${id} desc`,
    limit: sql`${listing.limit}::bigint`,
  };
}

function idsFromStart(paging: Paging, ascent: Ascent): Fragment {
  return paging.sql`
    with ${scan(paging, ascent, paging.matches)}
    select page.id
    from (${scanned(paging, ascent)}) page
    order by page.value, page.id desc
    limit ${slice(paging)}`;
}

function idsAfter(paging: Paging, ascent: Ascent, after: Position): Fragment {
  const { sql, matches } = paging;
  return sql`
    with ${scan(paging, ascent, sql`${matches} and ${ascent.above(after)}`)}
    select page.id
    from (${scanned(paging, ascent)} union all (${descent(paging, ascent, ascent.tied(after))})) page
    order by page.value, page.id desc
    limit ${slice(paging)}`;
}

const most = ({ limit, offset }: Paging['listing']): number => offset + limit;

/** The ascending scan as far as the page can need it; `edge` is the value it ends in, none when the records ended first. */
const scan = ({ sql, listing, from, id }: Paging, { value, scan }: Ascent, condition: Fragment): Fragment => sql`
    scan as materialized (
      select ${id} as id, ${value} as value
      from ${from}
      where ${condition}
      order by ${scan}
      limit ${most(listing)}::bigint
    ),
    edge as materialized (select max(value) as value from scan having count(*) = ${most(listing)}::bigint)`;

/** What the scan found below the edge, and of the edge the highest ids. */
const scanned = (paging: Paging, ascent: Ascent): Fragment => paging.sql`
      select scan.id, scan.value
      from scan
      where scan.value is distinct from (select edge.value from edge)
      union all (${descent(paging, ascent, ascent.equals(paging.sql`(select edge.value from edge)`))})`;

/** Records of one value from the highest id down. */
const descent = ({ sql, listing, from, id, matches }: Paging, { value }: Ascent, condition: Fragment): Fragment => sql`
      select ${id} as id, ${value} as value
      from ${from}
      where ${matches} and ${condition}
      order by ${id} desc
      limit ${most(listing)}::bigint`;
