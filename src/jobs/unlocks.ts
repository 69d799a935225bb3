import { hasEmail } from '../catalog/document.ts';
import type { Transaction } from '../database/db.ts';
import { syncProspects } from '../queries/crm-sync.ts';
import type { LeasedJob } from '../queries/job-leases.ts';
import type { JobRow, NewResult } from '../queries/jobs.ts';
import { findUnindexedUnlocksOfJob } from '../queries/unlocks.ts';
import type { Prospect } from '../schemas/prospects.ts';
import type { JobContext } from './handler.ts';
import { settle } from './settle.ts';

/**
 * Maximum number of prospects that one batch unlocks. A larger batch is cheaper per prospect, but makes other customers
 * wait longer.
 */
export const unlockBatchSize = 250;

/**
 * Creates or updates the contacts of unlocked prospects. Does nothing if the job does not sync to the CRM.
 * @returns the contact ids by prospect id
 */
export const toContacts = async (
  sql: Transaction,
  job: JobRow,
  prospects: readonly Prospect[],
): Promise<Map<string, string>> =>
  job.sync_crm ? syncProspects(sql, job.customer_id, prospects) : new Map<string, string>();

/** Returns the job result for one unlocked prospect. A prospect without an email costs nothing. */
export const unlockResult = (
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
 * Completes a job whose prospects are all unlocked. Before that, writes unlocks of the job to the search index if the
 * index lacks them, for example after a crash.
 * @throws unavailable while the catalog does not respond; the job is retried then
 */
export async function completeUnlocks(context: JobContext, job: LeasedJob): Promise<void> {
  const { db, catalog } = context;
  // So the customer's next searches leave these prospects out.
  await catalog.syncUnlocks(await db.lookup((sql) => findUnindexedUnlocksOfJob(sql, job.customer_id, job.id)));
  await catalog.refresh();
  await settle(context, job, async () => ({ results: [], isLast: true }));
}
