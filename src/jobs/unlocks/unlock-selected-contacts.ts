import { findNextInputs, type JobInput } from '../../queries/jobs/job-inputs.ts';
import type { NewResult } from '../../queries/jobs/jobs.ts';
import { unlockPeople } from '../../queries/catalog/unlock-people.ts';
import { settledUpTo } from '../settle.ts';
import type { JobBatch } from '../turns.ts';
import { completeUnlocks, settleUnlocks, unlockBatchSize, toContacts, unlockResult } from './unlocks.ts';

/** A prospect that the customer has already unlocked costs nothing. */
export const unlockSelectedContacts: JobBatch = async (context, job) => {
  const { db, catalog } = context;
  const limit = unlockBatchSize(job);
  const inputs = await db.lookup((sql) =>
    findNextInputs(sql, job.customer_id, job.id, { after: settledUpTo(job), limit }),
  );
  const last = inputs.at(-1);
  if (!last) return completeUnlocks(context, job);
  const wanted = inputs.filter((input) => !input.is_duplicate).map(({ item }) => item);
  const prospects = await catalog.find(wanted);
  const found = new Map(prospects.map((prospect) => [prospect._id, prospect]));
  await settleUnlocks(context, job, async (sql, held) => {
    const { unlocked, suppressed } = await unlockPeople(sql, held.customer_id, prospects, held.id);
    for (const id of suppressed) found.delete(id);
    const delivered = wanted.flatMap((id) => found.get(id) ?? []);
    const contacts = await toContacts(sql, held, delivered);
    // Who was free at the start was not reserved for, and may have got an address since.
    let left = held.reserved - held.charged;
    const results = inputs.map((input): NewResult => {
      if (input.is_duplicate) return { ...nothing(input), status: 'skipped', reason: 'duplicate' };
      const prospect = found.get(input.item);
      if (!prospect) return { ...nothing(input), status: 'failed', reason: 'not_found' };
      const result = unlockResult(held, input.position, prospect, contacts, left);
      if (!unlocked.has(input.item)) return { ...result, status: 'skipped', reason: 'already_unlocked', charged: 0 };
      left -= result.charged;
      return result;
    });
    return { results, progress: { position: last.position }, mayComplete: inputs.length < limit, unlocked };
  });
};

const nothing = ({ position, item }: JobInput) => ({ position, item, charged: 0 });
