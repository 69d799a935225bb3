import type { Transaction } from '../db.ts';
import { chargeCredits, releaseCredits } from '../queries/credits.ts';
import { firstOpenInput } from '../queries/job-inputs.ts';
import { closeJob, saveResults, type Ending, type JobRow, type NewResult } from '../queries/jobs.ts';
import { holdJob, type LeasedJob } from '../queries/turns.ts';
import type { JobContext } from './handler.ts';

/** What a piece of work came to. */
export interface Delivery {
  /** Rows of positions that are there already are left out, and not charged. */
  results: NewResult[];
  /** Where the work goes on; as before when left out. */
  progress?: object;
  /** Whether nothing but its inputs is left to do: the job is COMPLETED if each of them has its result now. */
  isLast: boolean;
}

/** A job after a delivery. */
export interface Settled extends JobRow {
  /** Whether it is COMPLETED. */
  isCompleted: boolean;
}

/** The job is no longer this turn's: it has ended, or another turn has it. Whoever meets this has nothing more to do. */
export class LeaseLost extends Error {
  constructor() {
    super('The lease on the job is lost');
    this.name = 'LeaseLost';
  }
}

/**
 * Settles a piece of work in one transaction: what was made, its results, the counts, and the credits for it, or nothing.
 * The job's row is locked first, the balance last.
 * @param deliver makes and writes what is delivered; is given the job as it stands. May write whatever the settling's
 *   transaction is to cover. It must not charge more than `reserved - charged`.
 * @returns the job as it has become
 * @throws LeaseLost when the job is another's by now; nothing is written then
 */
export const settle = (
  { db }: Pick<JobContext, 'db'>,
  leased: LeasedJob,
  deliver: (sql: Transaction, job: JobRow) => Promise<Delivery>,
): Promise<Settled> =>
  db.transaction(async (sql) => {
    const held = await holdJob(sql, leased.customer_id, leased);
    if (!held) throw new LeaseLost();
    const { isLast, ...delivered } = await deliver(sql, held);
    const { charge, ...job } = await saveResults(sql, held.customer_id, held.id, delivered);
    // Rows decide, not sums of what was sent: the job must not end while an input has no result.
    const isCompleted = isLast && !(await hasOpenInput(sql, job));
    if (isCompleted) await finish(sql, job.customer_id, job.id, { status: 'COMPLETED' }, charge);
    else await chargeCredits(sql, job.customer_id, job.id, { pool: job.pool, amount: charge });
    return { ...job, isCompleted };
  });

/** Returns the position up to which each input has its result, as far as the job's row tells. */
export const settledUpTo = ({ progress }: JobRow): number => (progress as { position?: number } | null)?.position ?? 0;

const hasOpenInput = async (sql: Transaction, job: JobRow): Promise<boolean> =>
  (await firstOpenInput(sql, job.customer_id, job.id, settledUpTo(job))) !== undefined;

/**
 * Ends a job, and gives back what it has not spent.
 * @param charge credits to charge before, for what was delivered in this transaction
 * @returns false when it had ended before; nothing is written then
 */
export async function finish(
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
