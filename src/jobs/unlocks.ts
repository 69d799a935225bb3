import { hasEmail } from '../catalog/document.ts';
import type { Transaction } from '../db.ts';
import { syncProspects } from '../queries/crm-sync.ts';
import type { JobRow, NewResult } from '../queries/jobs.ts';
import type { LeasedJob } from '../queries/turns.ts';
import { untoldUnlocksOf } from '../queries/unlocks.ts';
import type { Prospect } from '../schemas/prospects.ts';
import type { JobContext } from './handler.ts';
import { settle } from './settle.ts';

/**
 * Prospects that a slice unlocks at most: more are cheaper each, but the turns of other customers wait for them, and one
 * transaction holds the locks of their contacts and companies.
 */
export const sliceSize = 250;

/** Makes contacts of prospects, in the transaction that settles their unlocking; answers their ids by prospect. */
export const toContacts = async (
  sql: Transaction,
  job: JobRow,
  prospects: readonly Prospect[],
): Promise<Map<string, string>> =>
  job.sync_crm ? syncProspects(sql, job.customer_id, prospects) : new Map<string, string>();

/** The result of an unlocking; there is nothing to pay for who has no address to write to. */
export const unlocked = (
  job: JobRow,
  position: number,
  prospect: Prospect,
  contacts: ReadonlyMap<string, string>,
): NewResult => ({
  position,
  item: prospect._id,
  contact_id: contacts.get(prospect._id) ?? null,
  status: 'succeeded',
  charged: hasEmail(prospect) ? job.cost : 0,
  result: prospect,
});

/**
 * Completes a job that has nothing left to unlock, once the catalog leaves out what it has unlocked: what it was not told
 * of, because it was down or a worker died in between, it is told here.
 * @throws unavailable while the catalog does not answer; the job goes on waiting for it
 */
export async function completeUnlocks(context: JobContext, job: LeasedJob): Promise<void> {
  const { db, catalog } = context;
  await catalog.syncUnlocks(await db.lookup((sql) => untoldUnlocksOf(sql, job.customer_id, job.id)));
  await catalog.refresh();
  await settle(context, job, async () => ({ results: [], isLast: true }));
}
