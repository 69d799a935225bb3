import type { LockedId, Transaction } from '../../database/db.ts';
import { removeRows } from '../records/retention.ts';

/** How long inputs and results of an ended job are stored. */
const retention = '30 days';

/** True if all inputs and results of an ended job are still stored. The lock prevents their deletion. */
export async function isRetained(sql: Transaction, customerId: string, jobId: LockedId): Promise<boolean> {
  const [job] = await sql<{ is_retained: boolean }[]>`
    select finished_at > (select clock_timestamp()) - ${retention}::interval and purged_at is null as is_retained
    from jobs
    where customer_id = ${customerId}
      and id = ${jobId}`;
  return job!.is_retained;
}

/** Returns the id of the job that retries this one. */
export async function findRetry(sql: Transaction, customerId: string, id: string): Promise<string | undefined> {
  const [retry] = await sql<{ id: string }[]>`
    select id
    from jobs
    where customer_id = ${customerId}
      and request ->> 'retry_of' = ${id}`;
  return retry?.id;
}

/** Inputs that one transaction deletes, and results. */
const batchSize = 5_000;

/**
 * Deletes a batch of inputs and results of one job that ended more than 30 days ago. The job and its ledger entries are
 * kept.
 * @returns false if there was nothing to delete, or another transaction has locked the job
 */
export async function purgeEndedJob(sql: Transaction): Promise<boolean> {
  const [job] = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from jobs
    where finished_at <= (select clock_timestamp()) - ${retention}::interval
      and purged_at is null
    order by finished_at
    limit 1`;
  if (!job || !(await lockEndedJob(sql, job.customer_id, job.id))) return false;
  const removed = [await removeRows(sql, job.customer_id, 'job_inputs', job.id, batchSize)];
  removed.push(await removeRows(sql, job.customer_id, 'job_results', job.id, batchSize));
  if (removed.some((count) => count === batchSize)) return true;
  await sql`
    update jobs
    set purged_at = (select clock_timestamp())
    where customer_id = ${job.customer_id}
      and id = ${job.id}`;
  return true;
}

/** Returns false if the job's inputs and results are deleted, or another transaction has locked it. */
async function lockEndedJob(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const { count } = await sql`
    select
    from jobs
    where customer_id = ${customerId}
      and id = ${id}
      and purged_at is null
    for no key update skip locked`;
  return count === 1;
}
