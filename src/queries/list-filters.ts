import type { Database, Sql, Transaction } from '../db.ts';
import { contactSource } from '../filters/columns.ts';
import { rulesFilter } from '../filters/rules.ts';
import { any, not, type Filter } from '../filters/tree.ts';
import type { Rule } from '../schemas/lists.ts';

/** A list whose rules have changed and are not yet written down as memberships. */
export interface UnsettledList {
  id: string;
  rules: Rule[];
}

type Lane = <T>(work: (sql: Sql | Transaction) => Promise<T>) => Promise<T>;

/** What is read: by whose filter. */
interface Filtered {
  customerId: string;
  filter: Filter;
}

/**
 * Reads what a filter asks for as if every list's rules were written down.
 *
 * Mostly they are: then it is one statement, which holds unless rules changed while it ran. Else it is read in one
 * snapshot with the rules that have to be evaluated.
 * @param work gets the filter to read by
 */
export async function readSettled<F extends Filtered, T>(
  db: Database,
  lane: Lane,
  given: F,
  work: (sql: Sql | Transaction, settled: F) => Promise<T>,
): Promise<T> {
  if (!asksForLists(given.filter)) return lane((sql) => work(sql, given));
  const { customerId, filter } = given;
  const before = await db.lookup((sql) => stateOfRules(sql, customerId));
  if (before.is_settled) {
    const result = await lane((sql) => work(sql, given));
    const after = await db.lookup((sql) => stateOfRules(sql, customerId));
    if (after.version === before.version) return result;
  }
  return snapshot(db, async (sql) =>
    work(sql, { ...given, filter: settle(filter, await findUnsettledLists(sql, customerId)) }),
  );
}

interface StateOfRules {
  version: string | null;
  is_settled: boolean;
}

async function stateOfRules(sql: Sql, customerId: string): Promise<StateOfRules> {
  const [state] = await sql<StateOfRules[]>`
    select
      (select version from rule_versions where customer_id = ${customerId}) as version,
      not exists (select from lists where customer_id = ${customerId} and fill_version is not null) as is_settled`;
  return state!;
}

/** Whether a filter asks for memberships anywhere. */
function asksForLists(filter: Filter): boolean {
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.some(asksForLists);
  if (filter.kind === 'not') return asksForLists(filter.of);
  return 'field' in filter && filter.field === 'list_id';
}

/** Reads everything as of one instant. */
export const snapshot = <T>(db: Database, work: (sql: Transaction) => Promise<T>): Promise<T> =>
  db.search((sql) => sql.begin('isolation level repeatable read read only', work) as Promise<T>);

/** The customer's lists that are being filled. */
const findUnsettledLists = (sql: Transaction, customerId: string): Promise<UnsettledList[]> => sql<UnsettledList[]>`
  select id, rules
  from lists
  where customer_id = ${customerId}
    and fill_version is not null`;

/** The filter with the rules of unsettled lists in place of their rows. */
function settle(filter: Filter, unsettled: readonly UnsettledList[]): Filter {
  if (unsettled.length === 0) return filter;
  const settleOne = (one: Filter): Filter => settle(one, unsettled);
  if (filter.kind === 'all' || filter.kind === 'any') return { ...filter, of: filter.of.map(settleOne) };
  if (filter.kind === 'not') return not(settleOne(filter.of));
  if (!('field' in filter) || filter.field !== 'list_id') return filter;
  if (filter.kind === 'in') return memberOf(filter.values.map(String), unsettled);
  return not(memberOf('any', unsettled));
}

/** Whether a contact is in one of the lists, whether or not their rules are written down. */
export function memberOf(lists: string[] | 'any', unsettled: readonly UnsettledList[]): Filter {
  const concerned = unsettled.filter(({ id }) => lists === 'any' || lists.includes(id));
  const byRule = concerned.map(({ rules }) => rulesFilter(contactSource.fields, rules));
  return any([{ kind: 'member', lists, unsettled: concerned.map(({ id }) => id) }, ...byRule]);
}
