import { positionOf, type ProspectPosition } from '../../catalog/order.ts';
import { unlockPeople } from '../../queries/catalog/unlock-people.ts';
import type { UnlockContacts } from '../../schemas/jobs.ts';
import { searchOf } from './start-unlock.ts';
import type { JobBatch } from '../turns.ts';
import { completeUnlocks, settleUnlocks, unlockBatchSize, toContacts, unlockResult } from './unlocks.ts';

/** Stored with the job. The next batch resumes from it. */
interface Progress {
  after?: ProspectPosition;
  isExhausted?: true;
}

export const unlockContacts: JobBatch = async (context, job) => {
  const { after, isExhausted } = (job.progress ?? {}) as Progress;
  const limit = Math.min(unlockBatchSize(job), job.total - job.succeeded);
  if (limit === 0 || isExhausted) return completeUnlocks(context, job);
  const search = searchOf(job.customer_id, job.request as UnlockContacts);
  const found = await context.catalog.search(search, { limit, after });
  const isSearchExhausted = found.length < limit;
  await settleUnlocks(context, job, async (sql, held) => {
    const { unlocked, suppressed } = await unlockPeople(sql, held.customer_id, found, held.id);
    // Another job may have unlocked some of these prospects since the search, or the search index did not know it yet.
    // Others may have been suppressed.
    const prospects = found.filter(({ _id }) => unlocked.has(_id));
    const contacts = await toContacts(sql, held, prospects);
    const results = prospects.map((prospect, i) => unlockResult(held, held.succeeded + i + 1, prospect, contacts));
    // The values of somebody who is being erased are not kept. With nobody else, the search would never pass them.
    const last = found.findLast(({ _id }) => !suppressed.has(_id)) ?? found.at(-1);
    const progress: Progress =
      isSearchExhausted || !last ? { isExhausted: true } : { after: positionOf(last, search.order) };
    const mayComplete = isSearchExhausted || held.succeeded + results.length === held.total;
    return { results, progress, mayComplete, unlocked };
  });
};
