import type { Queryable } from '../database/db.ts';
import { findUnlocked } from '../queries/catalog/unlocks.ts';
import { isEmailAddress } from '../schemas/base/formats.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { fold } from '../text/fold.ts';

/*
 * What unlocks cost. `cost` is the price of one person in credits, as configured when the job started. A start reserves
 * the most that its job can cost, by what is known then.
 */

/** Returns what it costs to unlock a person. */
export const priceOf = (cost: number, person: Prospect): number => (isFree(person) ? 0 : cost);

/** True for a person without a valid e-mail address. A `work_email` that is known to be invalid does not count. */
function isFree({ work_email, emails, verification_status }: Prospect): boolean {
  const invalid = verification_status === 'invalid' ? fold(work_email) : undefined;
  return ![work_email, ...emails].some((email) => isEmailAddress(email) && fold(email) !== invalid);
}

/** Returns the most that it costs to unlock so many people of whom nothing is known. */
export const mostFor = (cost: number, people: number): number => cost * people;

/**
 * Returns the most that it costs to unlock these people.
 * @param known those of them that the catalog has
 */
export async function mostForChosen(
  sql: Queryable,
  customerId: string,
  cost: number,
  ids: readonly string[],
  known: readonly Prospect[],
): Promise<number> {
  const free = new Set(known.filter(isFree).map(({ _id }) => _id));
  const wanted = [...new Set(ids).difference(free)];
  return mostFor(cost, wanted.length - (await findUnlocked(sql, customerId, wanted)).size);
}

/** Returns the most that it costs to unlock so many people, of whom as many are unlocked as `maxCredits` allows. */
export const mostWithin = (cost: number, people: number, maxCredits: number): number =>
  cost === 0 ? 0 : Math.min(people, Math.floor(maxCredits / cost)) * cost;
