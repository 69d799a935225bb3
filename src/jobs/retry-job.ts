import type { Locked, Transaction } from '../database/db.ts';
import { queueOf } from '../database/queues.ts';
import { conflict } from '../errors.ts';
import { countReusable } from '../queries/records/earlier-verifications.ts';
import { copyOpenInputs } from '../queries/jobs/job-inputs.ts';
import { findRetry, isRetained } from '../queries/jobs/job-retention.ts';
import { lockJob } from '../queries/jobs/job-views.ts';
import { requireJob, reuseHoursOf, type JobRow } from '../queries/jobs/jobs.ts';
import { allJobs, type JobStarted, type JobType } from '../schemas/jobs.ts';
import { enqueueTurn } from '../queries/records/turns.ts';
import { mostFor, mostForChosen, mostWithin } from './prices.ts';
import { startUnsizedJob, type Sizes } from './start-job.ts';

/**
 * Retries a FAILED or CANCELLED job: a new one for the items without a result, at the same price per item. A job that
 * has not ended is only enqueued again. The new job counts for no API key, because only operators retry jobs.
 * @returns the new job, or the given one if it has not ended
 * @throws DomainError `not_found`; `conflict` if every item has a result, if the job was already retried, or if its
 * inputs were deleted
 * @throws InsufficientCredits if the customer has too few for the new job
 */
export async function retryJob(sql: Transaction, customerId: string, id: string): Promise<JobStarted> {
  const { id: locked, status } = await lockJob(sql, customerId, id, allJobs);
  const job = await requireJob(sql, customerId, locked);
  if (status === 'COMPLETED') throw conflict('The job is COMPLETED: no items are left to retry');
  if (status === 'FAILED' || status === 'CANCELLED') return startRemaining(sql, job);
  await enqueueTurn(sql, queueOf(job.type), customerId);
  return { id, status };
}

async function startRemaining(sql: Transaction, job: Locked<JobRow>): Promise<JobStarted> {
  const retry = await findRetry(sql, job.customer_id, job.id);
  if (retry) throw conflict(`The job was already retried: see job ${retry}`);
  const { type, sync_crm, pool, cost } = job;
  const request = { ...(job.request as object), retry_of: job.id };
  const spender = { customerId: job.customer_id, apiKeyId: null };
  return startUnsizedJob(sql, spender, { type, sync_crm, request, pool, cost }, async (to) => {
    const remaining = await takeRemaining[type](sql, job, to);
    if (remaining.total === 0) throw conflict('Every item of the job has a result: no items are left to retry');
    return remaining;
  });
}

/** Counts the items without a result. Copies their inputs, if the job has any, to the job `to`. */
type TakeRemaining = (sql: Transaction, job: Locked<JobRow>, to: string) => Promise<Sizes>;

const remainingUnlocks: TakeRemaining = async (_sql, job) => {
  const total = job.total - job.succeeded;
  return { total, reserved: mostFor(job.cost, total) };
};

/**
 * Copies inputs that have no result, or were cancelled, to the job `to`.
 * @throws DomainError `conflict` if the inputs were deleted, 30 days after the end of the job
 */
async function takeOpenInputs(sql: Transaction, job: Locked<JobRow>, to: string) {
  if (!(await isRetained(sql, job.customer_id, job.id)))
    throw conflict('The job ended more than 30 days ago: its inputs are no longer stored. Start a new job');
  return copyOpenInputs(sql, job.customer_id, { from: job.id, to });
}

const remainingSelected: TakeRemaining = async (sql, job, to) => {
  const { total, items } = await takeOpenInputs(sql, job, to);
  return { total, reserved: await mostForChosen(sql, job.customer_id, job.cost, items, []) };
};

const remainingEmails: TakeRemaining = async (sql, job, to) => {
  const { total, items } = await takeOpenInputs(sql, job, to);
  const reusable = await countReusable(sql, job.customer_id, to, reuseHoursOf(job));
  return { total, reserved: (items.length - reusable) * job.cost };
};

/** The retry may spend what the job has not spent of its most. */
const remainingContacts: TakeRemaining = async (sql, job, to) => {
  const { total, items } = await takeOpenInputs(sql, job, to);
  return { total, reserved: mostWithin(job.cost, items.length, job.reserved - job.charged) };
};

/** It looks at all records again: those that are done are skipped. */
const remainingUndo: TakeRemaining = async (_sql, job) => ({ total: job.total, reserved: 0 });

const takeRemaining = {
  unlock_contacts: remainingUnlocks,
  unlock_selected_contacts: remainingSelected,
  verify_email: remainingEmails,
  verify_list: remainingEmails,
  enrich_contacts: remainingContacts,
  undo: remainingUndo,
} satisfies Record<JobType, TakeRemaining>;
