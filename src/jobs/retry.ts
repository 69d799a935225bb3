import type { Transaction } from '../db.ts';
import { conflict } from '../errors.ts';
import { queueOf } from '../queues.ts';
import { reserveCredits } from '../queries/credits.ts';
import { isRetained } from '../queries/job-retention.ts';
import { findRetry, insertRest } from '../queries/job-retries.ts';
import { insertJob, readJob, setTotal, type JobRow } from '../queries/jobs.ts';
import { lockJob } from '../queries/service-jobs.ts';
import { unlockedAmong } from '../queries/unlocks.ts';
import { jobTypes, type JobStarted, type JobType } from '../schemas/jobs.ts';
import { wake } from './wake.ts';

/**
 * Has the rest of a job done. One that has ended stays as it is, and what it did not settle becomes a new job with a reservation
 * of its own, at the price of the first. One that has not ended is worked at anyway; a worker is woken for it.
 * @returns the job that does it
 * @throws not_found; conflict when nothing is left, another job does it already, or its inputs are no longer kept; InsufficientCredits
 */
export async function retryJob(sql: Transaction, customerId: string, id: string): Promise<JobStarted> {
  const status = await lockJob(sql, customerId, id, jobTypes);
  const job = await readJob(sql, customerId, id);
  if (status === 'COMPLETED') throw conflict('The job is COMPLETED: nothing is left to do');
  const isOver = status === 'FAILED' || status === 'CANCELLED';
  const { reserved, ...begun } = isOver ? await startRest(sql, job) : { id, status, reserved: 0 };
  await wake(sql, queueOf(job.type), customerId);
  await reserveCredits(sql, customerId, begun.id, { pool: job.pool, amount: reserved });
  return begun;
}

async function startRest(sql: Transaction, job: JobRow): Promise<JobStarted & { reserved: number }> {
  const retry = await findRetry(sql, job.customer_id, job.id);
  if (retry) throw conflict(`The rest of the job is done by ${retry}`);
  const { type, sync_crm, pool, cost } = job;
  const request = { ...(job.request as object), retry_of: job.id };
  const begun = await insertJob(sql, job.customer_id, { type, sync_crm, request, pool, cost, total: 0, reserved: 0 });
  const { total, payable } = await takeRest[type](sql, job, begun.id);
  if (total === 0) throw conflict('Nothing is left to do of the job');
  const reserved = payable * cost;
  await setTotal(sql, job.customer_id, begun.id, { total, reserved });
  return { ...begun, reserved };
}

/** How many items are left, and how many of them may cost something. */
interface Rest {
  total: number;
  payable: number;
}

/** Counts what is left of a job. What the job was given and did not settle becomes the input of the job `to`. */
type TakeRest = (sql: Transaction, job: JobRow, to: string) => Promise<Rest>;

const unlockRest: TakeRest = async (_sql, job) => {
  const total = job.total - job.succeeded;
  return { total, payable: total };
};

/**
 * Copies the inputs without a result from a job to the job `to`.
 * @throws conflict if the inputs are no longer stored, because the job ended too long ago
 */
async function takeInputs(sql: Transaction, job: JobRow, to: string) {
  if (!(await isRetained(sql, job.customer_id, job.id)))
    throw conflict('The job ended more than 30 days ago: its inputs are no longer kept');
  return insertRest(sql, job.customer_id, { from: job.id, to });
}

const unlockSelectedRest: TakeRest = async (sql, job, to) => {
  const { total, items } = await takeInputs(sql, job, to);
  const free = await unlockedAmong(sql, job.customer_id, items);
  return { total, payable: items.length - free.size };
};

const verifyRest: TakeRest = async (sql, job, to) => {
  const { total, items } = await takeInputs(sql, job, to);
  return { total, payable: items.length };
};

const takeRest = {
  unlock_contacts: unlockRest,
  unlock_selected_contacts: unlockSelectedRest,
  verify_email: verifyRest,
  verify_list: verifyRest,
} satisfies Record<JobType, TakeRest>;
