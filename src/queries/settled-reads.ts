import type { Database, Sql, Transaction } from '../database/db.ts';
import { contactSource, exactContactSource } from '../filters/columns.ts';
import type { RecordQuery } from '../filters/record-query.ts';
import { rulesFilter } from '../filters/rules.ts';
import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { all, any, not, singleList, type Filter } from '../filters/tree.ts';
import type { Rule } from '../schemas/lists.ts';
import { noneSettling } from './company-settlements.ts';
import { isUnsettled, listState, type ListState } from './list-state.ts';

/** A list whose stored memberships may not be exact: it is being filled, or contacts of a company are settling. */
export interface UnsettledList {
  id: string;
  rules: Rule[];
  /** Copied contacts wait to become members of the list. */
  is_copying: boolean;
}

/** The lists of one customer whose members a read must evaluate, because the stored memberships are not exact. */
export interface Unsettled {
  customerId: string;
  /** Lists that are being filled. */
  filling: readonly UnsettledList[];
  /** Lists whose rules use company fields. A read evaluates these rules for the contacts that are settling. */
  changing: readonly UnsettledList[];
  /** Ids of deleted lists that may still have rows in `list_members`. */
  deleted?: readonly string[];
}

/**
 * The lists of a customer that a read must evaluate, and whether contacts wait to be detached from a deleted company.
 */
interface State extends Unsettled {
  /** Contacts still refer to a company that is deleted. */
  isDetaching: boolean;
}

/** Runs `work` on a connection of one of the database's lanes. */
type Lane = <T>(work: (sql: Sql | Transaction) => Promise<T>) => Promise<T>;

/** A listing whose filter and source are rewritten so that reading them gives exact results. */
export interface SettledQuery extends RecordQuery {
  /**
   * SQL condition that is true while the stored memberships are exact. Put it into the statement that reads, so that
   * both see the same snapshot. It names no columns of the reading statement's tables and costs almost nothing.
   */
  guard?: (sql: FragmentMaker) => Fragment;
  /** The list, if the filter asks for exactly one list and that list is being filled. */
  filling?: UnsettledList;
}

/**
 * Reads a listing exactly, also while lists are being filled or contacts are settling.
 *
 * Usually the stored memberships are exact. Then one statement reads the listing, and its guard proves that they were
 * exact. Otherwise a second read in one snapshot evaluates the rules of the affected lists.
 * @param work reads the listing; returns undefined when the guard was false or may have been false
 */
export async function readSettled<T>(
  db: Database,
  lane: Lane,
  given: RecordQuery,
  work: (sql: Sql | Transaction, reading: SettledQuery) => Promise<T | undefined>,
): Promise<T> {
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
 * Makes the rest of the transaction use generic plans, which do not depend on parameter values. For a customer added
 * after the last `analyze`, a plan made for the values would scan all of the customer's companies for each contact.
 */
export const planForAnyCustomer = async (sql: Sql | Transaction): Promise<void> =>
  void (await sql`set local plan_cache_mode = force_generic_plan`);

/** Returns the condition under which the stored memberships are exact for a listing; undefined if they always are. */
function guardOf({ source, customerId, filter, order }: RecordQuery): SettledQuery['guard'] {
  if (source.alias !== 'c') return undefined;
  if (asksFor(filter, 'list_id'))
    return (sql) => sql`${noneSettling(sql, customerId)} and ${noneFilling(sql, customerId)}`;
  const asksForTimes = asksFor(filter, 'updated_at') || order.some(({ field }) => field === 'updated_at');
  return asksForTimes ? (sql) => noneSettling(sql, customerId, 'deletions') : undefined;
}

/** SQL condition: the customer has no list that is being filled. */
const noneFilling = (sql: FragmentMaker, customerId: string): Fragment => sql`
  not exists (select from lists f where f.customer_id = ${customerId}::uuid and f.fill_version is not null)`;

/** Returns whether a filter uses a field, at any depth. */
function asksFor(filter: Filter, field: string): boolean {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.some((one) => asksFor(one, field));
  if (filter.kind === 'not') return asksFor(filter.of, field);
  return 'field' in filter && filter.field === field;
}

/** Runs `work` in a read-only transaction in which all statements see the same snapshot. */
export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

/** Finds the customer's lists whose stored memberships are not exact now. */
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

/** Rewrites a listing so that the database evaluates everything whose stored state is not exact. */
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
 * Returns the filter with each condition on `list_id` replaced, so that it also finds members that are not stored yet.
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

/** Returns the unsettled lists that are among `lists`. */
const among = (lists: string[], { customerId, filling, changing }: Unsettled): Unsettled => {
  const isConcerned = ({ id }: UnsettledList): boolean => lists.includes(id);
  return { customerId, filling: filling.filter(isConcerned), changing: changing.filter(isConcerned) };
};

/**
 * Returns a filter for the members of some lists. It is exact while lists are being filled or contacts are settling.
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

/** Returns a filter for the settling contacts that match the rules of at least one of the lists. */
const settlingMembers = (lists: readonly UnsettledList[], customerId: string): Filter =>
  all([{ kind: 'settling', customerId }, any(lists.map(filterOf))]);

const filterOf = ({ rules }: UnsettledList): Filter => rulesFilter(contactSource.fields, rules);
