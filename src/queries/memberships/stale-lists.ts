import { anyCustomerSetting } from '../../database/connection.ts';
import type { Database, Queryable, Transaction } from '../../database/db.ts';
import { contactSource } from '../../filters/columns.ts';
import type { RecordQuery } from '../../filters/record-query.ts';
import { rulesFilter } from '../../filters/rules.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import { all, any, not, singleList, type Filter } from '../../filters/tree.ts';
import type { Rule } from '../../schemas/lists.ts';
import { noneSettling, usesCompanyFields } from './company-settlements.ts';

/*
 * The members of a list are stored. While workers write them, the list is *stale*: its stored memberships by rule are
 * not used, and its rules are evaluated on read instead. Memberships by hand are always right.
 */

/** A list whose rules are evaluated on read, because workers are still writing its members. */
export interface StaleList {
  id: string;
  rules: Rule[];
  /** The contacts whose stored memberships may be wrong: all, or those of companies that have changed. */
  stale: 'all' | 'companies';
  /** True while some contacts that were copied from another list are not written as members yet. */
  is_copying: boolean;
}

/** Columns that say whether a list is stale. For a list that is not, `stale` is null. */
export type ListState = Pick<StaleList, 'is_copying'> & { stale: StaleList['stale'] | null };

export const isStale = (list: ListState): boolean => list.stale !== null;

/** SQL condition: the list `l` may be stale, because its rules use company fields and companies have changed. */
const followsCompanies = (sql: FragmentMaker, customerId: string): Fragment =>
  sql`(${usesCompanyFields(sql)} and not (${noneSettling(sql, customerId)}))`;

export const listState = (sql: FragmentMaker, customerId: string): Fragment => sql`
  case
    when l.fill_version is not null then 'all'
    when ${followsCompanies(sql, customerId)} then 'companies'
  end as stale,
  l.is_copying`;

/** The lists of one customer whose stored members must not be used. */
interface StaleLists {
  customerId: string;
  lists: readonly StaleList[];
  /** Ids of deleted lists that may still have rows in `list_members`. */
  deleted?: readonly string[];
}

/** A function that runs `work` on a connection from one group of database connections. */
type RunInLane = <T>(work: (sql: Queryable) => Promise<T>) => Promise<T>;

/** A query for records that gives exact results although some lists may be stale. */
export interface ExactQuery extends RecordQuery {
  /**
   * SQL condition: no list is stale. Put it into the statement that reads the members, so that both see the same
   * snapshot.
   */
  guard?: (sql: FragmentMaker) => Fragment;
  /** The stale list whose members the filter selects. Undefined if the filter is another one. */
  staleList?: StaleList;
}

/**
 * Runs a query for records. The result is exact even if lists are stale.
 * @param run runs a function on a connection from one group of database connections
 * @param query the query
 * @param work executes the query and returns its result. It returns undefined if the SQL condition `guard` of the query
 *   is false.
 */
export async function readExactly<T>(
  db: Database,
  run: RunInLane,
  query: RecordQuery,
  work: (sql: Queryable, query: ExactQuery) => Promise<T | undefined>,
): Promise<T> {
  // Usually no list is stale. Then one statement is enough, and its guard proves it. Otherwise a second read in one
  // snapshot evaluates the rules of the stale lists.
  const asksForLists = query.source.alias === 'c' && asksFor(query.filter, 'list_id');
  const guard = asksForLists ? (sql: FragmentMaker) => noneStale(sql, query.customerId) : undefined;
  const read = await run((sql) => work(sql, guard ? { ...query, guard } : query));
  if (read !== undefined) return read;
  const settled = await snapshot(db, async (sql) => {
    const stale = await findStaleLists(sql, query.customerId);
    await planForAnyCustomer(sql);
    return work(sql, evaluateStaleLists(query, stale));
  });
  return settled!;
}

const noneStale = (sql: FragmentMaker, customerId: string): Fragment => sql`
  ${noneSettling(sql, customerId)}
  and not exists (select 1 from lists f where f.customer_id = ${customerId}::uuid and f.fill_version is not null)`;

/**
 * Makes the rest of the transaction use generic query plans, which do not depend on parameter values. Other plans can
 * be very slow for a customer that was added after the last `analyze`.
 */
export async function planForAnyCustomer(sql: Queryable): Promise<void> {
  await sql`
    select set_config('plan_cache_mode', coalesce(current_setting(${anyCustomerSetting}, true), 'force_generic_plan'), true)`;
}

function asksFor(filter: Filter, field: string): boolean {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.some((one) => asksFor(one, field));
  if (filter.kind === 'not') return asksFor(filter.of, field);
  return 'field' in filter && filter.field === field;
}

/** Runs `work` in a read-only transaction in which all statements see the same snapshot. */
export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

async function findStaleLists(sql: Transaction, customerId: string): Promise<StaleLists> {
  const lists = await sql<(StaleList & { is_deleted: boolean })[]>`
    select l.id, l.rules, l.deleted_at is not null as is_deleted, ${listState(sql, customerId)}
    from lists l
    where l.customer_id = ${customerId}
      and (l.fill_version is not null or ${followsCompanies(sql, customerId)})`;
  return {
    customerId,
    lists: lists.filter((list) => !list.is_deleted),
    deleted: lists.filter((list) => list.is_deleted).map(({ id }) => id),
  };
}

function evaluateStaleLists(query: RecordQuery, stale: StaleLists): ExactQuery {
  const list = singleList(query.filter);
  const staleList = stale.lists.find(({ id }) => id === list);
  return { ...query, filter: evaluateInFilter(query.filter, stale), ...(staleList ? { staleList } : {}) };
}

function evaluateInFilter(filter: Filter, stale: StaleLists): Filter {
  const evaluate = (one: Filter): Filter => evaluateInFilter(one, stale);
  if (filter.kind === 'all' || filter.kind === 'any') return { ...filter, of: filter.of.map(evaluate) };
  if (filter.kind === 'not') return not(evaluate(filter.of));
  if (!('field' in filter) || filter.field !== 'list_id') return filter;
  if (filter.kind !== 'in') return not(memberOf('any', stale));
  const values = filter.values.map(String).filter((id) => !stale.deleted?.includes(id));
  const concerned = stale.lists.filter(({ id }) => values.includes(id));
  return concerned.length === 0
    ? { ...filter, values }
    : memberOf(values, { customerId: stale.customerId, lists: concerned });
}

/** Returns a filter that matches the members of some lists. For stale lists, the filter evaluates the rules. */
export function memberOf(lists: string[] | 'any', { customerId, lists: stale, deleted = [] }: StaleLists): Filter {
  const member: Filter = {
    kind: 'member',
    lists,
    byHandOnly: stale.map(({ id }) => id),
    ...(deleted.length > 0 ? { deleted: [...deleted] } : {}),
  };
  const copies = stale.filter(({ is_copying }) => is_copying).map(({ id }) => id);
  const copied: Filter[] = copies.length > 0 ? [{ kind: 'copied', customerId, lists: copies }] : [];
  return any([member, ...copied, ...stale.map((list) => matchesRules(customerId, list))]);
}

function matchesRules(customerId: string, { id, rules, stale }: StaleList): Filter {
  const matching = rulesFilter(contactSource.fields, rules);
  if (stale === 'all') return matching;
  // Only these contacts can be members, and indexes find them whatever the rules are.
  const candidates = any([
    { kind: 'member', lists: [id], byHandOnly: [] },
    { kind: 'settling', customerId },
  ]);
  return all([candidates, matching]);
}
