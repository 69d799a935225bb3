import type { Transaction } from '../database/db.ts';
import { chargeCredits, releaseCredits } from '../queries/credits.ts';
import { findFirstOpenInput } from '../queries/job-inputs.ts';
import { lockLeasedJob, type LeasedJob } from '../queries/job-leases.ts';
import { closeJob, saveResults, type Ending, type JobRow, type NewResult } from '../queries/jobs.ts';
import type { JobContext } from './handler.ts';

/** The finished work of a job, to be stored by one settlement. */
export interface Delivery {
  /** The new results. A position that already has a result is ignored and not charged again. */
  results: NewResult[];
  /** The position from which the job continues; unchanged if left out. */
  progress?: object;
  /** Whether no other work remains. If true, and every input has its result, the job becomes COMPLETED. */
  isLast: boolean;
}

/** A job after its finished work was stored. */
export interface Settled extends JobRow {
  /** Whether the job is COMPLETED. */
  isCompleted: boolean;
}

/**
 * Thrown when this turn no longer holds the job: the job has ended, or another turn has leased it. The turn must stop;
 * there is nothing to clean up.
 */
export class LeaseLost extends Error {
  constructor() {
    super('The lease on the job is lost');
    this.name = 'LeaseLost';
  }
}

/**
 * Settles finished work in one transaction: stores what `deliver` writes, the results, the counts and the charged
 * credits, or nothing at all. Locks the job's row first and the balance last.
 * @param deliver gets the locked job, writes the work and returns its results. Anything that must commit together with
 *   the results may be written here. It must not charge more than `reserved - charged`.
 * @returns the job after the settlement
 * @throws LeaseLost when another turn holds the job or it has ended; nothing is written
 */
export const settle = (
  { db }: Pick<JobContext, 'db'>,
  leased: LeasedJob,
  deliver: (sql: Transaction, job: JobRow) => Promise<Delivery>,
): Promise<Settled> =>
  db.transaction(async (sql) => {
    const held = await lockLeasedJob(sql, leased.customer_id, leased);
    if (!held) throw new LeaseLost();
    const { isLast, ...delivered } = await deliver(sql, held);
    const { charge, ...job } = await saveResults(sql, held.customer_id, held.id, delivered);
    // The rows decide, not the number of results sent: a job must not end while an input has no result.
    const isCompleted = isLast && !(await hasOpenInput(sql, job));
    if (isCompleted) await endJob(sql, job.customer_id, job.id, { status: 'COMPLETED' }, charge);
    else await chargeCredits(sql, job.customer_id, job.id, { pool: job.pool, amount: charge });
    return { ...job, isCompleted };
  });

/**
 * Returns a position up to which every input has its result, as stored on the job's row. Later inputs may have results
 * too.
 */
export const settledUpTo = ({ progress }: JobRow): number => (progress as { position?: number } | null)?.position ?? 0;

const hasOpenInput = async (sql: Transaction, job: JobRow): Promise<boolean> =>
  (await findFirstOpenInput(sql, job.customer_id, job.id, settledUpTo(job))) !== undefined;

/**
 * Ends a job and releases its unspent credits.
 * @param charge credits to charge first, for the work stored in this transaction
 * @returns false when the job had already ended; nothing is written then
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
