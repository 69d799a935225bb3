import { indexAscending, oldestFirst } from './ascending.ts';
import type { Column } from './columns.ts';
import type { Position } from './cursor.ts';
import { columnsOf, type Listing } from './listing.ts';
import { bound, pagingOf, slice, type Clauses, type Paging } from './paging.ts';
import { rulesFilter } from './rules.ts';
import { constant, join, type Fragment, type FragmentMaker } from './sql.ts';
import { shownValue, toSql } from './to-sql.ts';
import { theOnlyList, type Filter } from './tree.ts';

/** The clauses of the statement that reads a page: `select … from ${from} where ${where} order by ${orderBy} limit ${limit}`. */
export interface PageClauses extends Clauses {
  from: Fragment;
}

/**
 * The clauses of a page. Ordered by the time of creation or by one indexed field, a page costs the same however many
 * records there are and, by cursor, however deep it lies; by number, what it skips. In any other order it costs what
 * sorting the filtered records does.
 */
export function pageClauses(sql: FragmentMaker, listing: Listing): PageClauses {
  const paging = pagingOf(sql, listing);
  return { from: paging.from, ...wayOf(listing)(paging) };
}

/** The clauses that count what all pages together hold: `select count(*) from ${from} where ${where}`. */
export function countClauses(sql: FragmentMaker, listing: Listing): Pick<PageClauses, 'from' | 'where'> {
  const { from, matches } = pagingOf(sql, listing);
  return { from, where: matches };
}

type Way = (paging: Paging) => Clauses;

function wayOf({ source, order, offset, filter, changing }: Listing): Way {
  const [first, second] = order;
  const isIndexed = !second && (first!.field === 'created_at' || source.indexed.includes(first!.field));
  if (isIndexed && first!.direction === 'ASC') return first!.field === 'created_at' ? oldestFirst : indexAscending;
  if (theOnlyList(filter) !== undefined && !second && first!.field === 'created_at') return membersFirst;
  if (changing && !second && first!.field === 'created_at') return membersOfChanging(changing);
  const way = isIndexed ? descending(first!.field) : bySorting;
  return offset > 0 ? skipping(way) : way;
}

/** Finds the ids first, so that what is skipped is not joined or read further. */
const skipping =
  (way: Way): Way =>
  (paging) => {
    const { sql, listing, from, id, owned } = paging;
    const { where, orderBy, limit } = way(paging);
    const ids = sql`select ${id} from ${from} where ${where} order by ${orderBy} limit ${limit}`;
    return { where: sql`${owned} and ${id} = any(array(${ids}))`, orderBy, limit: sql`${listing.limit}::bigint` };
  };

const descending = (field: string): Way => (field === 'created_at' ? newestFirst : indexDescending);

/** The primary key, backwards. */
const newestFirst: Way = (paging) => {
  const { sql, listing, id, matches } = paging;
  const where = listing.after ? sql`${matches} and ${id} < ${listing.after.id}::uuid` : matches;
  return { where, orderBy: sql`${id} desc`, limit: slice(paging) };
};

/**
 * The members of one list, from the key of the memberships, backwards. Joined, the server may well walk through all the
 * contacts instead: it does not know that a list's members can all be old.
 */
const membersFirst: Way = (paging) => {
  const { sql, listing, id, owned } = paging;
  const { after, customerId, filter } = listing;
  const members = sql`
    select m.contact_id
    from list_members m
    where m.customer_id = ${customerId}::uuid and m.list_id = ${theOnlyList(filter)!}::uuid
      ${after ? sql`and m.contact_id < ${after.id}::uuid` : sql``}
    order by m.contact_id desc
    limit ${slice(paging)}`;
  return {
    where: sql`${owned} and ${id} = any(array(${members}))`,
    orderBy: sql`${id} desc`,
    limit: sql`${listing.limit}::bigint`,
  };
};

/**
 * The members of one list whose rows by rule are not to be believed for contacts that are settling: the other rows, and
 * those of these contacts that match the rules.
 */
const membersOfChanging =
  ({ id: list, rules }: NonNullable<Listing['changing']>): Way =>
  (paging) => {
    const { sql, listing, from, id, owned } = paging;
    const { after, customerId, source, offset, limit } = listing;
    const print = (filter: Filter): Fragment => toSql(sql, source, filter);
    const settling: Filter = { kind: 'settling', customerId };
    const most = sql`${offset + limit}::bigint`;
    const members = sql`
      select m.contact_id as id
      from list_members m
      where m.customer_id = ${customerId}::uuid and m.list_id = ${list}::uuid
        ${after ? sql`and m.contact_id < ${after.id}::uuid` : sql``}
        and (m.by_hand or not exists (
          select from contacts c where c.customer_id = ${customerId}::uuid and c.id = m.contact_id and ${print(settling)}
        ))
      order by m.contact_id desc
      limit ${most}`;
    const matching = sql`
      select ${id} as id
      from ${from}
      where ${owned} and ${print(settling)} and ${print(rulesFilter(source.fields, rules))}
        ${after ? sql`and ${id} < ${after.id}::uuid` : sql``}
      order by ${id} desc
      limit ${most}`;
    return {
      where: sql`${owned} and ${id} = any(array(
        select one.id from ((${members}) union (${matching})) one order by one.id desc limit ${slice(paging)}
      ))`,
      orderBy: sql`${id} desc`,
      limit: sql`${limit}::bigint`,
    };
  };

/** The field's index, backwards. The position is compared as a row, so that the scan starts right there. */
const indexDescending: Way = (paging) => {
  const { sql, listing, id, matches } = paging;
  const { after } = listing;
  const value = constant(sql, columnsOf(listing.source, listing.order)[0]!.value);
  return {
    where: after ? sql`${matches} and (${value}, ${id}) < (${bound(paging, after, 0)}, ${after.id}::uuid)` : matches,
    orderBy: sql`${value} desc, ${id} desc`,
    limit: slice(paging),
  };
};

/** Any order: the filtered records are sorted. */
const bySorting: Way = (paging) => {
  const { sql, listing, id, matches } = paging;
  const keys = columnsOf(listing.source, listing.order).map((column, i) => {
    const direction = listing.order[i]!.direction.toLowerCase();
    return sql`${shownValue(sql, column)} ${constant(sql, isNullable(column) ? `${direction} nulls last` : direction)}`;
  });
  return {
    where: listing.after ? sql`${matches} and ${isAfter(paging, listing.after, 0)}` : matches,
    orderBy: sql`${join(sql, keys, ',', '')}, ${id} desc`,
    limit: slice(paging),
  };
};

const isNullable = (column: Column): boolean => !column.required && column.shownAs === undefined;

/** Whether a record comes after the position, by the keys from the i-th on. */
function isAfter(paging: Paging, after: Position, i: number): Fragment {
  const { sql, listing, id } = paging;
  const { order, source } = listing;
  if (i === order.length) return sql`${id} < ${after.id}::uuid`;
  const column = columnsOf(source, order)[i]!;
  const value = shownValue(sql, column);
  const rest = isAfter(paging, after, i + 1);
  if (after.values[i] === null) return sql`(${value} is null and ${rest})`;
  const position = bound(paging, after, i);
  const beyond = sql`${value} ${constant(sql, order[i]!.direction === 'ASC' ? '>' : '<')} ${position}`;
  const nulls = isNullable(column) ? sql`or ${value} is null` : sql``;
  return sql`(${beyond} ${nulls} or (${value} = ${position} and ${rest}))`;
}
