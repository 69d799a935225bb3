import { afterCommit } from '../../database/after-commit.ts';
import type { Sql, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { finishedJobs } from '../../process/metrics.ts';
import type { Pool } from '../../schemas/credits.ts';
import type { FinalStatus, ItemReason, ItemStatus, JobStatus, JobType } from '../../schemas/jobs.ts';
import { currentTrace } from '../../tracing/tracing.ts';

/** A row of the table `jobs`, with the columns that workers use. */
export interface JobRow {
  customer_id: string;
  id: string;
  type: JobType;
  sync_crm: boolean;
  /**
   * Data of the request that started the job. Its form depends on the job type. Also has the request's `traceparent` if
   * it was traced.
   */
  request: unknown;
  pool: Pool;
  /** Number of items to process. */
  total: number;
  /** Price of one item in credits. */
  cost: number;
  succeeded: number;
  failed: number;
  skipped: number;
  /** Number of credits that are reserved for the job. Of these, `reserved - charged` are not charged yet. */
  reserved: number;
  charged: number;
  /**
   * The point from which the job resumes after an interruption; null at the start. For a job with inputs, this object
   * has a field `position`: all inputs up to this position have a result. Later inputs may have a result too.
   */
  progress: unknown;
  /** Number of unexpected errors in a row. */
  failures: number;
}

/** The columns of `JobRow` in SQL. */
export const jobColumns = (sql: Sql | Transaction) => sql`
  customer_id, id, type, sync_crm, request, pool, total, cost, succeeded, failed, skipped, reserved, charged, progress,
  failures`;

/** The properties of a job to create. */
export interface NewJob {
  type: JobType;
  sync_crm: boolean;
  request: object;
  pool: Pool;
  total: number;
  cost: number;
  reserved: number;
}

/**
 * Inserts a job. In the same transaction, the caller must add the job's inputs, reserve its credits, and enqueue a
 * message so that a worker starts it.
 */
export async function insertJob(
  sql: Transaction,
  customerId: string,
  given: NewJob,
): Promise<{ id: string; status: JobStatus }> {
  const { type, sync_crm, request, pool, total, cost, reserved } = given;
  const [job] = await sql<[{ id: string; status: JobStatus }]>`
    insert into jobs (customer_id, type, sync_crm, request, pool, total, cost, reserved)
    values (${customerId}, ${type}, ${sync_crm}, ${sql.json({ ...request, ...currentTrace() })}, ${pool}, ${total}, ${cost}, ${reserved})
    returning id, status`;
  return job;
}

/**
 * Returns the job with this id.
 * @throws DomainError `not_found` if the customer has no such job
 */
export async function requireJob(sql: Transaction, customerId: string, id: string): Promise<JobRow> {
  const [job] = await sql<JobRow[]>`
    select ${jobColumns(sql)}
    from jobs
    where customer_id = ${customerId}
      and id = ${id}`;
  if (!job) throw notFound('job');
  return job;
}

/** Sets the number of items and the reserved credits of a job that was inserted in this transaction. */
export async function setJobTotal(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { total, reserved }: Pick<NewJob, 'total' | 'reserved'>,
): Promise<void> {
  await sql`
    update jobs
    set total = ${total}, reserved = ${reserved}
    where customer_id = ${customerId}
      and id = ${jobId}`;
}

/** The result of one item of a job. */
export interface NewResult {
  position: number;
  item: string;
  contact_id?: string | null;
  status: ItemStatus;
  reason?: ItemReason | null;
  /** Number of credits charged for this item. */
  charged: number;
  result?: object | null;
}

/**
 * Saves results of a job and updates the job's counts. Its count of failures starts again at 0. A result is ignored if its input already has one. The caller
 * must have locked the job.
 * @param progress the point from which the job resumes after an interruption; if undefined, the stored point is kept
 * @returns the updated job. `charge` is the number of credits to charge for the new results.
 */
export async function saveResults(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { results, progress }: { results: NewResult[]; progress?: object | undefined },
): Promise<JobRow & { charge: number }> {
  const [job] = await sql<[JobRow & { charge: number }]>`
    with added as (
      insert into job_results (customer_id, job_id, position, item, contact_id, status, reason, charged, result)
      select ${customerId}, ${jobId}, r.position, r.item, r.contact_id, r.status, r.reason, r.charged, r.result
      from jsonb_to_recordset(${sql.json(results as never)}) as r (
        position integer, item text, contact_id uuid, status text, reason text, charged integer, result jsonb
      )
      on conflict do nothing
      returning status, charged
    ),
    sums (new_succeeded, new_failed, new_skipped, charge) as (
      select
        count(*) filter (where status = 'succeeded'),
        count(*) filter (where status = 'failed'),
        count(*) filter (where status = 'skipped'),
        coalesce(sum(charged), 0)
      from added
    )
    update jobs
    set
      succeeded = succeeded + new_succeeded,
      failed = failed + new_failed,
      skipped = skipped + new_skipped,
      charged = charged + charge,
      progress = coalesce(${progress === undefined ? null : sql.json(progress as never)}::jsonb, progress),
      failures = 0
    from sums
    where customer_id = ${customerId}
      and id = ${jobId}
    returning ${jobColumns(sql)}, charge`;
  return job;
}

/** The final status of a job, with an error text if it failed. */
export interface Ending {
  status: FinalStatus;
  /** Error text shown to the customer. */
  error?: string;
}

/**
 * Sets the final status of a job, if it has not ended yet.
 * @returns the job's `pool` and the number of its reserved credits that were not charged (`refunded`); undefined when
 *   the job had already ended
 */
export async function closeJob(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { status, error }: Ending,
): Promise<{ pool: Pool; refunded: number } | undefined> {
  const [job] = await sql<{ type: JobType; pool: Pool; refunded: number }[]>`
    update jobs
    set
      status = ${status},
      error = ${error ?? null},
      refunded = reserved - charged,
      lease = null,
      leased_until = null,
      finished_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${jobId}
      and finished_at is null
    returning type, pool, refunded`;
  if (job) afterCommit(sql, () => finishedJobs.inc({ type: job.type, status }));
  return job;
}
