import type { Transaction } from '../database/db.ts';
import type { RunQueue } from '../database/queues.ts';
import { chargeCredits, releaseCredits } from '../queries/jobs/credits.ts';
import { findFirstOpenInput } from '../queries/jobs/job-inputs.ts';
import { lockRun, type Leased, type LeasedJob, type Run } from '../queries/jobs/leases.ts';
import { closeJob, saveResults, type Ending, type JobRow, type NewResult } from '../queries/jobs/jobs.ts';
import type { JobContext } from './handler.ts';

/** Results of a batch, to be stored in one transaction by `settle`. */
export interface Delivery {
  /** The new results. A result for an input that already has one is ignored and not charged again. */
  results: NewResult[];
  /**
   * The new progress of the job, from which the next batch resumes. The type of this object depends on the job type. If
   * undefined, the stored progress does not change.
   */
  progress?: object;
  /**
   * Whether the job may end. If true, the job becomes COMPLETED as soon as every input has its result. False if the
   * batch has more work to do, which is not among the inputs.
   */
  mayComplete: boolean;
}

/** The row of a job after `settle` has stored results. */
export interface Settled extends JobRow {
  /** Whether the job is COMPLETED. */
  isCompleted: boolean;
}

/**
 * Error: this worker no longer has the lease (its time-limited claim) on the run, because the run has ended or another
 * worker has leased it. The worker must stop processing the run.
 */
export class LeaseLost extends Error {
  constructor() {
    super('The lease on the job or import is lost');
    this.name = 'LeaseLost';
  }
}

/**
 * Stores results of a job in one transaction, updates the number of finished items and charges credits.
 * @param deliver Returns the results to store. This function is called with the job's locked row, and may write other
 * data in the same transaction. The cost of the results must not exceed the job's `reserved - charged`.
 * @returns The row of the job after the transaction.
 * @throws LeaseLost if the job has ended or another worker has leased it. Nothing is written then.
 */
export async function settle(
  { db, log }: Pick<JobContext, 'db' | 'log'>,
  leased: LeasedJob,
  deliver: (sql: Transaction, job: JobRow) => Promise<Delivery>,
): Promise<Settled> {
  const settled = await underLease(db, leased, (sql, held) => settleIn(sql, held, deliver));
  const { isCompleted, succeeded, failed, skipped, charged } = settled;
  if (isCompleted) log.info({ succeeded, failed, skipped, charged }, 'a job is completed');
  return settled;
}

/**
 * Runs a transaction that writes for a run (a job or an import), with the run's locked row.
 * @throws LeaseLost if the run has ended or another worker has leased it. Nothing is written then.
 */
export const underLease = <Q extends RunQueue, T>(
  db: JobContext['db'],
  leased: Leased<Q>,
  write: (sql: Transaction, run: Run<Q>) => Promise<T>,
): Promise<T> =>
  db.transaction(async (sql) => {
    // Locks the run's row first and the customer's balance last.
    const held = await lockRun(sql, leased.customer_id, leased);
    if (!held) throw new LeaseLost();
    return write(sql, held);
  });

async function settleIn(
  sql: Transaction,
  held: JobRow,
  deliver: (sql: Transaction, job: JobRow) => Promise<Delivery>,
): Promise<Settled> {
  const { mayComplete, ...delivered } = await deliver(sql, held);
  const { charge, ...job } = await saveResults(sql, held.customer_id, held.id, delivered);
  // The rows decide, not the number of results sent: a job must not end while an input has no result.
  const isCompleted = mayComplete && !(await hasOpenInput(sql, job));
  if (isCompleted) await endJob(sql, job.customer_id, job.id, { status: 'COMPLETED' }, charge);
  else await chargeCredits(sql, job.customer_id, job.id, { pool: job.pool, amount: charge });
  return { ...job, isCompleted };
}

/**
 * Returns the stored progress of a job: the position in its list of inputs up to which every input has a result. Later
 * inputs may also have results.
 */
export const settledUpTo = ({ progress }: JobRow): number => (progress as { position?: number } | null)?.position ?? 0;

const hasOpenInput = async (sql: Transaction, job: JobRow): Promise<boolean> =>
  (await findFirstOpenInput(sql, job.customer_id, job.id, settledUpTo(job))) !== undefined;

/**
 * Ends a job: sets its final status, charges credits and releases the reserved credits that were not spent.
 * @param charge Number of credits to charge for results that are stored in the same transaction.
 * @returns False if the job had already ended. Nothing is written then.
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
  await chargeCredits(sql, customerId, jobId, { pool: closed.pool, amount: charge });
  await releaseCredits(sql, customerId, jobId, { pool: closed.pool, amount: closed.refunded });
  return true;
}
