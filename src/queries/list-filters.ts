import type { Database, Sql, Transaction } from '../db.ts';
import { contactSource, exactContactSource } from '../filters/columns.ts';
import type { Listing } from '../filters/listing.ts';
import { rulesFilter } from '../filters/rules.ts';
import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { all, any, not, theOnlyList, type Filter } from '../filters/tree.ts';
import type { Rule } from '../schemas/lists.ts';
import { lookAtCompanies, noneSettling } from './company-settlements.ts';

/** A list whose memberships by rule are not, or not all, written down. */
export interface UnsettledList {
  id: string;
  rules: Rule[];
  /** Contacts that were copied to it wait to become members. */
  is_copying: boolean;
}

/** What has to be evaluated on read, of one customer. */
export interface Unsettled {
  customerId: string;
  /** Lists whose rules have changed. */
  filling: readonly UnsettledList[];
  /** Lists whose rules look at companies, while contacts of a company are being settled: to be evaluated for those. */
  changing: readonly UnsettledList[];
  /** Lists that were deleted, and may have members still. */
  deleted?: readonly string[];
}

interface State extends Unsettled {
  /** Whether contacts still refer to a company that is deleted. */
  isDetaching: boolean;
}

type Lane = <T>(work: (sql: Sql | Transaction) => Promise<T>) => Promise<T>;

/** A listing as it has to be read. */
export interface Reading extends Listing {
  /**
   * Holds while the listing is exact as it stands. It belongs into the statement that reads, so that both are of one
   * instant; it names no table's columns, and costs next to nothing.
   */
  guard?: (sql: FragmentMaker) => Fragment;
  /** The only list that the filter asks for, if its members are not stored yet. */
  filling?: UnsettledList;
}

/**
 * Reads what a listing asks for as if all memberships were written down, and all contacts of deleted companies detached.
 *
 * Mostly they are: then it is one statement, which tells by its guard that it was so. Else it is read in one snapshot with
 * the rules that have to be evaluated.
 * @param work reads; undefined when there is a guard and it may not have held
 */
export async function readSettled<T>(
  db: Database,
  lane: Lane,
  given: Listing,
  work: (sql: Sql | Transaction, reading: Reading) => Promise<T | undefined>,
): Promise<T> {
  const guard = guardOf(given);
  const read = await lane((sql) => work(sql, guard ? { ...given, guard } : given));
  if (read !== undefined) return read;
  const settled = await snapshot(db, async (sql) => {
    const reading = settle(given, await findUnsettled(sql, given.customerId));
    if (reading.changing) await planForAnyCustomer(sql);
    return work(sql, reading);
  });
  return settled!;
}

/**
 * Has the rest of the transaction planned without regard to the values. Planned for a customer who came after the last
 * `analyze`, a statement over all contacts of a company goes through all their companies for each contact.
 */
export const planForAnyCustomer = async (sql: Sql | Transaction): Promise<void> =>
  void (await sql`set local plan_cache_mode = force_generic_plan`);

/** The condition under which a listing is exact without any evaluation; undefined when it always is. */
function guardOf({ source, customerId, filter, order }: Listing): Reading['guard'] {
  if (source.alias !== 'c') return undefined;
  if (asksFor(filter, 'list_id'))
    return (sql) => sql`${noneSettling(sql, customerId)} and ${noneFilling(sql, customerId)}`;
  const asksForTimes = asksFor(filter, 'updated_at') || order.some(({ field }) => field === 'updated_at');
  return asksForTimes ? (sql) => noneSettling(sql, customerId, 'deletions') : undefined;
}

const noneFilling = (sql: FragmentMaker, customerId: string): Fragment => sql`
  not exists (select from lists f where f.customer_id = ${customerId}::uuid and f.fill_version is not null)`;

/** Whether a filter asks for a field anywhere. */
function asksFor(filter: Filter, field: string): boolean {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.some((one) => asksFor(one, field));
  if (filter.kind === 'not') return asksFor(filter.of, field);
  return 'field' in filter && filter.field === field;
}

/** Reads everything as of one instant. */
export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

/** What of the customer's contacts and memberships cannot be believed. */
async function findUnsettled(sql: Transaction, customerId: string): Promise<State> {
  const [[state], lists] = await Promise.all([
    sql<{ is_detaching: boolean }[]>`select not (${noneSettling(sql, customerId, 'deletions')}) as is_detaching`,
    sql<(UnsettledList & { is_filling: boolean; is_deleted: boolean })[]>`
      select
        id,
        rules,
        fill_version is not null as is_filling,
        deleted_at is not null as is_deleted,
        is_copying
      from lists
      where customer_id = ${customerId}
        and (fill_version is not null or (${lookAtCompanies(sql)} and not (${noneSettling(sql, customerId)})))`,
  ]);
  const kept = lists.filter((list) => !list.is_deleted);
  return {
    customerId,
    filling: kept.filter((list) => list.is_filling),
    changing: kept.filter((list) => !list.is_filling),
    deleted: lists.filter((list) => list.is_deleted).map(({ id }) => id),
    isDetaching: state!.is_detaching,
  };
}

/** The listing with everything evaluated that cannot be believed. */
function settle(given: Listing, state: State): Reading {
  const list = theOnlyList(given.filter);
  const only = state.changing.find(({ id }) => id === list);
  const filling = state.filling.find(({ id }) => id === list);
  return {
    ...given,
    ...(state.isDetaching ? { source: exactContactSource } : {}),
    filter: settleFilter(given.filter, state),
    ...(only ? { changing: only } : {}),
    ...(filling ? { filling } : {}),
  };
}

function settleFilter(filter: Filter, unsettled: Unsettled): Filter {
  const settleOne = (one: Filter): Filter => settleFilter(one, unsettled);
  if (filter.kind === 'all' || filter.kind === 'any') return { ...filter, of: filter.of.map(settleOne) };
  if (filter.kind === 'not') return not(settleOne(filter.of));
  if (!('field' in filter) || filter.field !== 'list_id') return filter;
  if (filter.kind !== 'in') return not(memberOf('any', unsettled));
  const values = filter.values.filter((id) => !unsettled.deleted?.includes(String(id)));
  const lists = values.map(String);
  const concerned = among(lists, unsettled);
  return concerned.filling.length + concerned.changing.length === 0
    ? { ...filter, values }
    : memberOf(lists, concerned);
}

/** What of this concerns the lists. */
const among = (lists: string[], { customerId, filling, changing }: Unsettled): Unsettled => {
  const isConcerned = ({ id }: UnsettledList): boolean => lists.includes(id);
  return { customerId, filling: filling.filter(isConcerned), changing: changing.filter(isConcerned) };
};

/** Whether a contact is in one of the lists, whether or not their rules are written down. */
export function memberOf(lists: string[] | 'any', { customerId, filling, changing, deleted = [] }: Unsettled): Filter {
  const member: Filter = {
    kind: 'member',
    lists,
    unsettled: filling.map(({ id }) => id),
    ...(changing.length > 0 ? { changing: { customerId, lists: changing.map(({ id }) => id) } } : {}),
    ...(deleted.length > 0 ? { deleted: [...deleted] } : {}),
  };
  const copies = filling.filter(({ is_copying }) => is_copying).map(({ id }) => id);
  const copied: Filter[] = copies.length > 0 ? [{ kind: 'copied', customerId, lists: copies }] : [];
  const settling = changing.length > 0 ? [settlingMembers(changing, customerId)] : [];
  return any([member, ...copied, ...filling.map(filterOf), ...settling]);
}

/** The contacts that are settling and match the rules of one of the lists. */
const settlingMembers = (lists: readonly UnsettledList[], customerId: string): Filter =>
  all([{ kind: 'settling', customerId }, any(lists.map(filterOf))]);

const filterOf = ({ rules }: UnsettledList): Filter => rulesFilter(contactSource.fields, rules);
