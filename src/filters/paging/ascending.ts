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
  equals: (value: Fragment) => Fragment;
  /** The record's sort value is greater than that of `after`. */
  above: (after: Position) => Fragment;
  /** The record has the sort value of `after` and a lower id. */
  tied: (after: Position) => Fragment;
}

export function indexAscending(context: PageContext): Clauses {
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

/** Scans the primary key, because an id starts with the time of creation. */
export function oldestFirst(context: PageContext): Clauses {
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
  const { sql, query, id, owned } = context;
  const ids = query.after ? idsAfter(context, ascent, query.after) : idsFromStart(context, ascent);
  return {
    where: sql`${owned} and ${id} = any(array(${ids}))`,
    orderBy: sql`${ascent.value}, ${id} desc`,
    limit: sql`${query.limit}::bigint`,
  };
}

function idsFromStart(context: PageContext, ascent: Ascent): Fragment {
  return context.sql`
    with ${scan(context, ascent, context.matches)}
    select page.id
    from (${scanned(context, ascent)}) page
    order by page.value, page.id desc
    limit ${limitAndOffset(context)}`;
}

function idsAfter(context: PageContext, ascent: Ascent, after: Position): Fragment {
  const { sql, matches } = context;
  return sql`
    with ${scan(context, ascent, sql`${matches} and ${ascent.above(after)}`)}
    select page.id
    from (${scanned(context, ascent)} union all (${descent(context, ascent, ascent.tied(after))})) page
    order by page.value, page.id desc
    limit ${limitAndOffset(context)}`;
}

const max = ({ limit, offset }: PageContext['query']): number => offset + limit;

/**
 * CTEs: `scan` has the ids and sort values of the skipped records and the page, `edge` the last sort value of `scan`,
 * or no row if `scan` is below its limit.
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

/** Reads the records that `scan` found. Those with the last sort value are read again, by id descending. */
const scanned = (context: PageContext, ascent: Ascent): Fragment => context.sql`
      select scan.id, scan.value
      from scan
      where scan.value is distinct from (select edge.value from edge)
      union all (${descent(context, ascent, ascent.equals(context.sql`(select edge.value from edge)`))})`;

/**
 * Reads filtered records by id descending.
 * @param condition all records that meet it must have the same sort value
 */
const descent = (
  { sql, query, from, id, matches }: PageContext,
  { value }: Ascent,
  condition: Fragment,
): Fragment => sql`
      select ${id} as id, ${value} as value
      from ${from}
      where ${matches} and ${condition}
      order by ${id} desc
      limit ${max(query)}::bigint`;
