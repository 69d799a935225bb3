import type { Locked, Transaction } from '../../database/db.ts';
import { syncProspects } from '../../queries/crm/crm-sync.ts';
import { contactsAtOnce } from '../../queries/memberships/list-members.ts';
import type { JobRow, NewResult } from '../../queries/jobs/jobs.ts';
import { findUnindexedUnlocksOfJob } from '../../queries/catalog/unlocks.ts';
import type { UnlockContacts } from '../../schemas/jobs.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import type { WorkingJob } from '../attempts.ts';
import type { JobContext } from '../handler.ts';
import { priceOf } from '../prices.ts';
import { settle, type Delivery } from '../settle.ts';

/** Stored with an unlock job: the lists to which its contacts are added. Missing in most jobs. */
export type Listing = Pick<UnlockContacts, 'list_ids'>;

/** Maximum number of prospects that one batch unlocks. With more, other customers wait longer. */
const maxBatchSize = 250;

const listsOf = ({ request }: Pick<JobRow, 'request'>): string[] => (request as Listing).list_ids ?? [];

export const unlockBatchSize = (job: JobRow): number =>
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
  charged: Math.min(priceOf(job.cost, prospect), left),
  result: prospect,
});

interface Unlocking extends Delivery {
  /** Ids of the people that the batch has unlocked. */
  unlocked: Iterable<string>;
}

/**
 * Settles a batch of unlocks. The last one completes the job; where searches use an index, it must know the unlocks
 * before.
 * @throws DomainError `unavailable` if the catalog does not respond. The job is retried then
 */
export async function settleUnlocks(
  context: JobContext,
  job: WorkingJob,
  deliver: (sql: Transaction, held: Locked<JobRow>) => Promise<Unlocking>,
): Promise<void> {
  const { catalog } = context;
  const hasIndex = catalog.engine === 'elasticsearch';
  let ids: string[] = [];
  let isLast = false;
  await settle(context, job, async (sql, held) => {
    const { unlocked, mayComplete, ...delivered } = await deliver(sql, held);
    ids = [...unlocked];
    isLast = mayComplete;
    return { ...delivered, mayComplete: mayComplete && !hasIndex };
  });
  if (hasIndex) await catalog.syncUnlocks(ids);
  if (hasIndex && isLast) await completeUnlocks(context, job);
}

/**
 * Indexes all unlocks of the job, then completes it.
 * @throws DomainError `unavailable` if the catalog does not respond. The job is retried then
 */
export async function completeUnlocks(context: JobContext, job: WorkingJob): Promise<void> {
  const { db, catalog } = context;
  // So the customer's next searches leave these prospects out.
  await catalog.syncUnlocks(await db.lookup((sql) => findUnindexedUnlocksOfJob(sql, job.customer_id, job.id)));
  await catalog.refresh();
  await settle(context, job, async () => ({ results: [], mayComplete: true }));
}
