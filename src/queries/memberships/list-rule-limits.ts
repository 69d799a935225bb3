import type { Queryable, Transaction } from '../../database/db.ts';
import { conflict, type DomainError } from '../../errors.ts';
import { ruleLimits, type Rule } from '../../schemas/lists.ts';
import type { WithExclusiveRules } from './list-rules.ts';

/** The rules of one list before and after a change. For a new list, `before` is empty. */
interface RuleChange {
  before: readonly Rule[];
  after: readonly Rule[];
}

/**
 * Checks that a change of a list's rules does not exceed the limits of the customer: the number of rules, and the
 * number of lists with rules. Call it before the change is written.
 * @param path JSON pointer to the rules in the request, for the error
 * @throws DomainError `conflict` if a limit would be exceeded
 */
export async function requireWithinRuleLimits(
  sql: Transaction,
  customerId: WithExclusiveRules,
  { before, after }: RuleChange,
  path: string,
): Promise<void> {
  const moreRules = after.length - before.length;
  // A customer that exceeds a limit already may still change lists if the number of rules does not grow.
  if (moreRules <= 0) return;
  const isOneMoreList = before.length === 0;
  const now = await countRules(sql, customerId);
  const { lists, rulesOfCustomer } = ruleLimits;
  if (isOneMoreList && now.lists >= lists) throw beyond(`${lists} lists with rules`, path);
  if (now.rules + moreRules > rulesOfCustomer)
    throw beyond(`${rulesOfCustomer} rules in all lists; there are ${now.rules}, and this adds ${moreRules}`, path);
}

/**
 * Maximum number of memberships that one transaction of a worker writes. Takes about 0.1 s, and one second on a machine
 * that is very busy.
 */
const membersAtOnce = 10_000;

/**
 * Returns how many contacts one transaction may write, so that it writes at most `membersAtOnce` memberships even if the
 * rules of all lists match. At least 1.
 * @param most maximum of the result
 * @param moreLists number of lists to which each contact is also added by hand
 */
export async function contactsAtOnce(sql: Queryable, customerId: string, most: number, moreLists = 0): Promise<number> {
  const { lists } = await countRules(sql, customerId);
  return Math.min(most, Math.ceil(membersAtOnce / Math.max(1, lists + moreLists)));
}

async function countRules(sql: Queryable, customerId: string): Promise<{ lists: number; rules: number }> {
  const [row] = await sql<[{ lists: number; rules: number }]>`
    select count(*) as lists, coalesce(sum(rule_count), 0) as rules
    from lists
    where customer_id = ${customerId}
      and rule_count > 0`;
  return row;
}

function beyond(limit: string, path: string): DomainError {
  const message = `a customer can have at most ${limit}`;
  return conflict(message[0]!.toUpperCase() + message.slice(1), [{ path, message }]);
}
