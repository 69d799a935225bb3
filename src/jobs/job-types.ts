import type { Spender } from '../access/credentials.ts';
import type { Locked, Transaction } from '../database/db.ts';
import { queueOf } from '../database/queues.ts';
import { conflict } from '../errors.ts';
import { requireJob, lockJob, type JobRow } from '../queries/jobs/jobs.ts';
import { findRetry } from '../queries/jobs/runs.ts';
import { enqueueTurn } from '../queries/records/turns.ts';
import { allJobs, type Estimate, type JobStarted, type JobType } from '../schemas/jobs.ts';
import { enrichment } from './enrichment.ts';
import { estimateOf, startJob, unsized, type JobCode, type Plan, type PlanServices } from './start-job.ts';
import { undo } from './undo.ts';
import { unlockByFilter, unlockChosen } from './unlocks.ts';
import { verifyEmails, verifyMembers } from './verify-emails.ts';

export const jobCode: Readonly<Record<JobType, JobCode>> = {
  unlock_contacts: unlockByFilter,
  unlock_selected_contacts: unlockChosen,
  verify_email: verifyEmails,
  verify_list: verifyMembers,
  enrich_contacts: enrichment,
  undo,
};

/** Plans a job, in the transaction that starts it. `more`: members of the request that are known only then. */
export type Planner = (sql: Transaction, spender: Spender, more?: object) => Promise<Plan>;

/** Finds what the plan of a job needs, before the transaction. */
export async function prepareJob(type: JobType, services: PlanServices, request: object): Promise<Planner> {
  const { find, plan } = jobCode[type].start!;
  const found = await find?.(services, request);
  return (sql, spender, more) => plan(sql, spender, services.server.config, { ...request, ...more }, found);
}

/** Returns what a job would cost. */
export async function estimateJob(
  type: JobType,
  services: PlanServices,
  spender: Spender,
  request: object,
): Promise<Estimate> {
  const plan = await prepareJob(type, services, { ...request, dry_run: true });
  return services.db.transaction(async (sql) => estimateOf(sql, spender, await plan(sql, spender)));
}

/**
 * Retries a FAILED or CANCELLED job: creates a job for its items without a result, at the same price per item. A job
 * that has not ended is only enqueued again. The new job counts against the spend cap of no API key.
 * @returns the new job, or the given one if it has not ended
 * @throws DomainError `not_found`; `conflict` if every item has a result, the job was already retried, or its inputs
 * were deleted
 * @throws InsufficientCredits
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
  const { type, sync_crm, cost } = job;
  const request = { ...(job.request as object), retry_of: job.id };
  const spender = { customerId: job.customer_id, apiKeyId: null };
  const inputs = async (_sql: Transaction, to: string) => {
    const remaining = await jobCode[type].remaining(sql, job, to);
    if (remaining.total === 0) throw conflict('Every item of the job has a result: no items are left to retry');
    return remaining;
  };
  return startJob(sql, spender, { type, sync_crm, request, cost, ...unsized, inputs });
}
