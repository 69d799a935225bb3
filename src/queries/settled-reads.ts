import { anyCustomerSetting } from '../database/connection.ts';
import type { Database, Sql, Transaction } from '../database/db.ts';
import { contactSource, exactContactSource } from '../filters/columns.ts';
import type { RecordQuery } from '../filters/record-query.ts';
import { rulesFilter } from '../filters/rules.ts';
import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { all, any, not, singleList, type Filter } from '../filters/tree.ts';
import type { Rule } from '../schemas/lists.ts';
import { noneSettling } from './company-settlements.ts';
import { isUnsettled, listState, type ListState } from './list-state.ts';

/**
 * A list whose stored members may be out of date, because workers are still writing them, or because the company of a
 * member has changed.
 */
export interface UnsettledList {
  id: string;
  rules: Rule[];
  /** True while some contacts that were copied from another list are not written as members yet. */
  is_copying: boolean;
}

/**
 * The lists of one customer whose stored members are out of date. To find the members of these lists, evaluate the
 * lists' rules.
 */
export interface Unsettled {
  customerId: string;
  /** Lists whose members workers are still writing. */
  filling: readonly UnsettledList[];
  /**
   * Lists with rules that test fields of a contact's company. Some contacts still wait for an update after a change of
   * their company; for these contacts, evaluate the rules.
   */
  changing: readonly UnsettledList[];
  /** Ids of deleted lists that may still have rows in `list_members`. */
  deleted?: readonly string[];
}

/**
 * The stored data of a customer that is out of date now: members of lists, and contacts that still refer to a deleted
 * company.
 */
interface State extends Unsettled {
  /** True if some contacts still refer to a deleted company. */
  isDetaching: boolean;
}

/** A function that runs `work` on a connection from one group of database connections. */
type Lane = <T>(work: (sql: Sql | Transaction) => Promise<T>) => Promise<T>;

/** A query for records that gives exact results even if stored list members are out of date. */
export interface SettledQuery extends RecordQuery {
  /**
   * SQL condition: the stored data is up to date. Put it into the statement that reads this data, so that both see the
   * same snapshot.
   */
  guard?: (sql: FragmentMaker) => Fragment;
  /**
   * A list whose members workers are still writing. Set only if the filter selects the members of exactly this list.
   */
  filling?: UnsettledList;
}

/**
 * Runs a query for records. The result is exact even if stored list members or the companies of contacts are out of
 * date.
 * @param lane runs a function on a connection from one group of database connections
 * @param given the query
 * @param work executes the query and returns its result. It returns undefined if the SQL condition `guard` of the query
 *   is false.
 */
export async function readSettled<T>(
  db: Database,
  lane: Lane,
  given: RecordQuery,
  work: (sql: Sql | Transaction, reading: SettledQuery) => Promise<T | undefined>,
): Promise<T> {
  // Usually the stored memberships are exact. Then one statement is enough, and its guard proves that they were exact.
  // Otherwise a second read in one snapshot evaluates the rules of the affected lists.
  const guard = guardOf(given);
  const read = await lane((sql) => work(sql, guard ? { ...given, guard } : given));
  if (read !== undefined) return read;
  const settled = await snapshot(db, async (sql) => {
    const reading = applyUnsettled(given, await findUnsettled(sql, given.customerId));
    if (reading.changing) await planForAnyCustomer(sql);
    return work(sql, reading);
  });
  return settled!;
}

/**
 * Makes the rest of the transaction use generic query plans, which do not depend on parameter values. Other plans can
 * be very slow for a customer that was added after the last `analyze`.
 */
export async function planForAnyCustomer(sql: Sql | Transaction): Promise<void> {
  await sql`
    select set_config('plan_cache_mode', coalesce(current_setting(${anyCustomerSetting}, true), 'force_generic_plan'), true)`;
}

/**
 * Returns an SQL condition that checks whether the stored data for a query is up to date. Returns undefined if the
 * query needs no check.
 */
function guardOf({ source, customerId, filter, order }: RecordQuery): SettledQuery['guard'] {
  if (source.alias !== 'c') return undefined;
  if (asksFor(filter, 'list_id'))
    return (sql) => sql`${noneSettling(sql, customerId)} and ${noneFilling(sql, customerId)}`;
  const asksForTimes = asksFor(filter, 'updated_at') || order.some(({ field }) => field === 'updated_at');
  return asksForTimes ? (sql) => noneSettling(sql, customerId, 'deletions') : undefined;
}

/** SQL condition: the customer has no lists with members that workers are still writing. */
const noneFilling = (sql: FragmentMaker, customerId: string): Fragment => sql`
  not exists (select 1 from lists f where f.customer_id = ${customerId}::uuid and f.fill_version is not null)`;

/** Returns true if a filter has a condition on this field, also within nested conditions. */
function asksFor(filter: Filter, field: string): boolean {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.some((one) => asksFor(one, field));
  if (filter.kind === 'not') return asksFor(filter.of, field);
  return 'field' in filter && filter.field === field;
}

/** Runs `work` in a read-only transaction in which all statements see the same snapshot. */
export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

/**
 * Finds a customer's stored data that is out of date now: lists and their members, and contacts that still refer to a
 * deleted company.
 */
async function findUnsettled(sql: Transaction, customerId: string): Promise<State> {
  const [[state], lists] = await Promise.all([
    sql<{ is_detaching: boolean }[]>`select not (${noneSettling(sql, customerId, 'deletions')}) as is_detaching`,
    sql<(UnsettledList & ListState & { is_deleted: boolean })[]>`
      select l.id, l.rules, l.deleted_at is not null as is_deleted, ${listState(sql, customerId)}
      from lists l
      where l.customer_id = ${customerId}
        and ${isUnsettled(sql, customerId)}`,
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

/**
 * Adapts a query to stored data that is out of date, so that its result is exact: the new query evaluates the rules of
 * lists whose stored members are out of date.
 * @param state the stored data that is out of date now
 */
function applyUnsettled(given: RecordQuery, state: State): SettledQuery {
  const list = singleList(given.filter);
  const only = state.changing.find(({ id }) => id === list);
  const filling = state.filling.find(({ id }) => id === list);
  return {
    ...given,
    ...(state.isDetaching ? { source: exactContactSource } : {}),
    filter: applyUnsettledToFilter(given.filter, state),
    ...(only ? { changing: only } : {}),
    ...(filling ? { filling } : {}),
  };
}

/**
 * Adapts a filter to stored data that is out of date: replaces each condition on `list_id` by a condition that also
 * evaluates the lists' rules.
 */
function applyUnsettledToFilter(filter: Filter, unsettled: Unsettled): Filter {
  const settleOne = (one: Filter): Filter => applyUnsettledToFilter(one, unsettled);
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

/** Returns a copy of an `Unsettled` object that contains only the out-of-date lists whose ids are in `lists`. */
const among = (lists: string[], { customerId, filling, changing }: Unsettled): Unsettled => {
  const isConcerned = ({ id }: UnsettledList): boolean => lists.includes(id);
  return { customerId, filling: filling.filter(isConcerned), changing: changing.filter(isConcerned) };
};

/**
 * Returns a filter that matches the members of some lists. For lists in `filling` and `changing`, whose stored members
 * are out of date, the filter evaluates the rules.
 */
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

/**
 * Returns a filter that matches contacts with two properties: they wait for an update after a change of their company,
 * and they match the rules of at least one of the lists.
 */
const settlingMembers = (lists: readonly UnsettledList[], customerId: string): Filter =>
  all([{ kind: 'settling', customerId }, any(lists.map(filterOf))]);

const filterOf = ({ rules }: UnsettledList): Filter => rulesFilter(contactSource.fields, rules);
