import { nextInputs, type JobInput } from '../queries/job-inputs.ts';
import type { NewResult } from '../queries/jobs.ts';
import { insertUnlocks } from '../queries/unlocks.ts';
import { settle, settledUpTo } from './settle.ts';
import type { Slice } from './turns.ts';
import { completeUnlocks, sliceSize, toContacts, unlocked } from './unlocks.ts';

/**
 * Runs a batch of a job of type `unlock_selected_contacts`. Unlocks the given prospects in the given order. A prospect
 * that the customer had already unlocked costs nothing; if the job syncs to the CRM, it becomes a contact too.
 */
export const unlockSelectedContacts: Slice = async (context, job) => {
  const { db, catalog } = context;
  const inputs = await db.lookup((sql) =>
    nextInputs(sql, job.customer_id, job.id, { after: settledUpTo(job), limit: sliceSize }),
  );
  const last = inputs.at(-1);
  if (!last) return completeUnlocks(context, job);
  const wanted = inputs.filter((input) => !input.is_duplicate).map(({ item }) => item);
  const prospects = await catalog.find(wanted);
  const found = new Map(prospects.map((prospect) => [prospect._id, prospect]));
  let come = new Set<string>();
  await settle(context, job, async (sql, held) => {
    come = new Set(await insertUnlocks(sql, held.customer_id, [...found.keys()], held.id));
    const contacts = await toContacts(
      sql,
      held,
      wanted.flatMap((id) => found.get(id) ?? []),
    );
    const results = inputs.map((input): NewResult => {
      if (input.is_duplicate) return { ...nothing(input), status: 'skipped', reason: 'duplicate' };
      const prospect = found.get(input.item);
      if (!prospect) return { ...nothing(input), status: 'failed', reason: 'not_found' };
      const result = unlocked(held, input.position, prospect, contacts);
      return come.has(input.item) ? result : { ...result, status: 'skipped', reason: 'already_unlocked', charged: 0 };
    });
    return { results, progress: { position: last.position }, isLast: false };
  });
  await catalog.syncUnlocks([...come]);
  if (inputs.length < sliceSize) await completeUnlocks(context, job);
};

const nothing = ({ position, item }: JobInput) => ({ position, item, charged: 0 });
