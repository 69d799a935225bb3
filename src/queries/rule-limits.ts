import type { Transaction } from '../db.ts';
import { conflict, type DomainError } from '../errors.ts';
import { ruleLimits, type Rule } from '../schemas/lists.ts';

/** The rules of one list before and after a change; a list that is made had none. */
interface RuleChange {
  before: readonly Rule[];
  after: readonly Rule[];
}

/**
 * Checks that a change keeps the customer within the limits of lists with rules and of rules in all. Who is beyond a limit
 * already keeps what there is, and may change it as long as neither number grows. The rules have to be locked, and the
 * change not yet written.
 * @param path JSON pointer of what asks for it
 * @throws conflict
 */
export async function requireRuleRoom(
  sql: Transaction,
  customerId: string,
  { before, after }: RuleChange,
  path: string,
): Promise<void> {
  const moreRules = after.length - before.length;
  if (moreRules <= 0) return;
  const isOneMoreList = before.length === 0;
  const [now] = await sql<{ lists: number; rules: number }[]>`
    select count(*) as lists, coalesce(sum(rule_count), 0) as rules
    from lists
    where customer_id = ${customerId}
      and rule_count > 0`;
  const { lists, rulesOfCustomer } = ruleLimits;
  if (isOneMoreList && now!.lists >= lists) throw beyond(`${lists} lists with rules`, path);
  if (now!.rules + moreRules > rulesOfCustomer)
    throw beyond(`${rulesOfCustomer} rules in all lists, has ${now!.rules} and would have ${moreRules} more`, path);
}

function beyond(limit: string, path: string): DomainError {
  const message = `a customer can have at most ${limit}`;
  return conflict(message[0]!.toUpperCase() + message.slice(1), [{ path, message }]);
}
