import type { Locked, Transaction } from '../database/db.ts';
import { chargeCredits, releaseCredits } from '../queries/jobs/credits.ts';
import { giveBackToKey } from '../queries/jobs/key-spending.ts';
import { addToJournal } from '../queries/events/journal.ts';
import { findNextInputs } from '../queries/jobs/job-inputs.ts';
import { closeJob, saveResults, type Ending, type JobRow, type NewResult } from '../queries/jobs/jobs.ts';
import { goOn, inAttempt, rest, type WorkingJob } from './attempts.ts';
import type { JobContext } from './handler.ts';

export interface Delivery {
  /** One for an input that already has a result is ignored and not charged again. */
  results: NewResult[];
  /** From which the next batch resumes, by job type. If undefined, the stored progress does not change. */
  progress?: object;
  /**
   * The job becomes COMPLETED as soon as every input has its result. False if there is more to do, which is not among
   * the inputs.
   */
  mayComplete: boolean;
  /** If the job is not completed, no turn takes it for so long. */
  restSeconds?: number;
}

interface Settled extends JobRow {
  isCompleted: boolean;
}

/**
 * Ends a batch in one transaction: stores results, counts finished items, charges credits, completes the job if all is
 * done, and ends the turn if others wait or its time is up. Updates `working` for the next batch.
 * @param deliver returns the results for the locked job, and may write other data in the same transaction. Their cost
 * must not exceed `reserved - charged`
 * @throws AttemptLost, with nothing written, if the job has ended or a later turn has taken it
 */
export async function settle(
  { db, log }: Pick<JobContext, 'db' | 'log'>,
  working: WorkingJob,
  deliver: (sql: Transaction, job: Locked<JobRow>) => Promise<Delivery>,
): Promise<Settled> {
  const settled = await inAttempt(db, working, (sql, held) => settleIn(sql, working, held, deliver));
  Object.assign(working, settled);
  const { isCompleted, succeeded, failed, skipped, charged } = settled;
  if (isCompleted) log.info({ succeeded, failed, skipped, charged }, 'a job is completed');
  return settled;
}

async function settleIn(
  sql: Transaction,
  working: WorkingJob,
  held: Locked<JobRow>,
  deliver: (sql: Transaction, job: Locked<JobRow>) => Promise<Delivery>,
): Promise<Settled> {
  const { mayComplete, restSeconds, ...delivered } = await deliver(sql, held);
  const { charge, ...job } = await saveResults(sql, held.customer_id, held.id, delivered);
  // The rows decide, not the number of results sent: a job must not end while an input has no result.
  const isCompleted = mayComplete && !(await hasOpenInput(sql, job));
  if (restSeconds !== undefined && !isCompleted) await rest(sql, working, { seconds: restSeconds });
  else await goOn(sql, working, isCompleted);
  if (isCompleted) await endJob(sql, job.customer_id, job.id, { status: 'COMPLETED' }, charge);
  else await chargeCredits(sql, job.customer_id, job.id, { pool: job.pool, amount: charge });
  return { ...job, isCompleted };
}

/** Returns the position in a job's inputs up to which every one has a result. Later ones may have results too. */
export const settledUpTo = ({ progress }: JobRow): number => (progress as { position?: number } | null)?.position ?? 0;

const hasOpenInput = async (sql: Transaction, job: JobRow): Promise<boolean> =>
  (await findNextInputs(sql, job.customer_id, job.id, { after: settledUpTo(job), limit: 1 })).length > 0;

/**
 * Sets the final status, charges credits and releases those that were not spent.
 * @param charge for results that are stored in the same transaction
 * @returns false, with nothing written, if the job had already ended
 */
export async function endJob(
  sql: Transaction,
  customerId: string,
  jobId: string,
  ending: Ending,
  charge = 0,
): Promise<boolean> {
  const closed = await closeJob(sql, customerId, jobId, ending);
  if (!closed) return false;
  const { type, succeeded, failed, skipped, charged } = closed;
  const data = { id: jobId, type, status: ending.status, succeeded, failed, skipped, charged };
  const origin = { source: 'job' as const, changeId: jobId, ...(closed.actor && { actor: closed.actor }) };
  addToJournal(sql, customerId, [{ type: 'job.ended', data, origin }]);
  const { api_key_id: apiKeyId, pool, refunded } = closed;
  if (apiKeyId !== null) await giveBackToKey(sql, customerId, jobId, { apiKeyId, pool, amount: refunded });
  await chargeCredits(sql, customerId, jobId, { pool, amount: charge });
  await releaseCredits(sql, customerId, jobId, { pool, amount: refunded });
  return true;
}
