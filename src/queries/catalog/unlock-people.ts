import type { Transaction } from '../../database/db.ts';
import type { Identified } from './identifiers.ts';
import { lockAndFindSuppressed } from './suppressions.ts';
import { insertUnlocks } from './unlocks.ts';

/** Ids of people. */
interface Unlocked {
  /** Were not unlocked before. */
  unlocked: Set<string>;
  /** Were not unlocked, because they must not be in the catalog any more. */
  suppressed: Set<string>;
}

/** Unlocks people whom a job has read from the catalog, except those who were suppressed since. */
export async function unlockPeople(
  sql: Transaction,
  customerId: string,
  people: readonly Identified[],
  jobId: string,
): Promise<Unlocked> {
  const suppressed = await lockAndFindSuppressed(sql, people);
  const ids = people.map(({ _id }) => _id).filter((id) => !suppressed.has(id));
  return { unlocked: new Set(await insertUnlocks(sql, customerId, ids, jobId)), suppressed };
}
