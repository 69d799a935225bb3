import type { Transaction } from '../../database/db.ts';
import { syncProspects } from '../../queries/crm/crm-sync.ts';
import { contactsAtOnce } from '../../queries/memberships/list-members.ts';
import type { LeasedJob } from '../../queries/jobs/leases.ts';
import type { JobRow, NewResult } from '../../queries/jobs/jobs.ts';
import { findUnindexedUnlocksOfJob } from '../../queries/catalog/unlocks.ts';
import { isEmailAddress } from '../../schemas/base/formats.ts';
import type { UnlockContacts } from '../../schemas/jobs.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import { fold } from '../../text/fold.ts';
import type { JobContext } from '../handler.ts';
import { settle } from '../settle.ts';

/** Stored with an unlock job: the lists to which its contacts are added. Missing in most jobs. */
export type Listing = Pick<UnlockContacts, 'list_ids'>;

/** Maximum number of prospects that one batch unlocks. With more, other customers wait longer. */
const maxBatchSize = 250;

const listsOf = ({ request }: Pick<JobRow, 'request'>): string[] => (request as Listing).list_ids ?? [];

export const unlockBatchSize = (job: LeasedJob): number =>
  job.sync_crm ? contactsAtOnce(maxBatchSize, listsOf(job).length) : maxBatchSize;

/**
 * Creates or updates a contact for each prospect, if the job has the option `sync_crm`, and adds it to the job's lists. A
 * list that was deleted meanwhile is left out.
 * @returns contact ids by prospect id
 */
export const toContacts = async (
  sql: Transaction,
  job: JobRow,
  prospects: readonly Prospect[],
): Promise<Map<string, string>> =>
  job.sync_crm ? syncProspects(sql, job.customer_id, prospects, listsOf(job)) : new Map<string, string>();

/** Returns what it costs to unlock a prospect (credits). */
export const costOf = ({ cost }: Pick<JobRow, 'cost'>, prospect: Prospect): number => (isFree(prospect) ? 0 : cost);

/** True for a person without a valid e-mail address. A `work_email` that is known to be invalid does not count. */
export function isFree({ work_email, emails, verification_status }: Prospect): boolean {
  const invalid = verification_status === 'invalid' ? fold(work_email) : undefined;
  return ![work_email, ...emails].some((email) => isEmailAddress(email) && fold(email) !== invalid);
}

/** @param left the most that it may cost: what is left of what the job has reserved */
export const unlockResult = (
  job: JobRow,
  position: number,
  prospect: Prospect,
  contacts: ReadonlyMap<string, string>,
  left = Infinity,
): NewResult => ({
  position,
  item: prospect._id,
  contact_id: contacts.get(prospect._id) ?? null,
  status: 'succeeded',
  charged: Math.min(costOf(job, prospect), left),
  result: prospect,
});

/**
 * Indexes the job's unlocks, then completes it.
 * @throws DomainError `unavailable` if the catalog does not respond. The job is retried then
 */
export async function completeUnlocks(context: JobContext, job: LeasedJob): Promise<void> {
  const { db, catalog } = context;
  // So the customer's next searches leave these prospects out.
  await catalog.syncUnlocks(await db.lookup((sql) => findUnindexedUnlocksOfJob(sql, job.customer_id, job.id)));
  await catalog.refresh();
  await settle(context, job, async () => ({ results: [], mayComplete: true }));
}
