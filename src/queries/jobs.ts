import { afterCommit } from '../after-commit.ts';
import type { Sql, Transaction } from '../db.ts';
import { finishedJobs } from '../metrics.ts';
import type { Pool } from '../schemas/credits.ts';
import type { FinalStatus, ItemReason, ItemStatus, JobStatus, JobType } from '../schemas/jobs.ts';

/** A job as a worker sees it. */
export interface JobRow {
  customer_id: string;
  id: string;
  type: JobType;
  sync_crm: boolean;
  /** What was asked, as the start of its type wrote it. */
  request: unknown;
  pool: Pool;
  /** Items to do. */
  total: number;
  /** Credits for one item. */
  cost: number;
  succeeded: number;
  failed: number;
  skipped: number;
  /** Credits. What may still be charged is `reserved - charged`. */
  reserved: number;
  charged: number;
  /**
   * Where the work goes on, as the last delivery wrote it; null at the beginning. Of a job with inputs `{position}`: every
   * input up to it has its result, and some after it may have theirs.
   */
  progress: unknown;
  /** Unexpected errors in a row. */
  failures: number;
}

/** Seconds that a lease lasts, unless it is renewed. */
export const leaseSeconds = 15;

/** What is read of a job, as `j`. */
export const jobColumns = (sql: Sql | Transaction) => sql`
  j.customer_id, j.id, j.type, j.sync_crm, j.request, j.pool, j.total, j.cost, j.succeeded, j.failed, j.skipped,
  j.reserved, j.charged, j.progress, j.failures`;

/** What a job begins as. */
export interface NewJob {
  type: JobType;
  sync_crm: boolean;
  request: object;
  pool: Pool;
  total: number;
  cost: number;
  reserved: number;
}

/** Makes a job; its inputs, its credits and the message to a worker are further steps of the same transaction. */
export async function insertJob(
  sql: Transaction,
  customerId: string,
  given: NewJob,
): Promise<{ id: string; status: JobStatus }> {
  const { type, sync_crm, request, pool, total, cost, reserved } = given;
  const [job] = await sql<[{ id: string; status: JobStatus }]>`
    insert into jobs (customer_id, type, sync_crm, request, pool, total, cost, reserved)
    values (${customerId}, ${type}, ${sync_crm}, ${sql.json(request as never)}, ${pool}, ${total}, ${cost}, ${reserved})
    returning id, status`;
  return job;
}

/** A job that there is. */
export async function readJob(sql: Transaction, customerId: string, id: string): Promise<JobRow> {
  const [job] = await sql<[JobRow]>`
    select ${jobColumns(sql)}
    from jobs j
    where j.customer_id = ${customerId}
      and j.id = ${id}`;
  return job;
}

/** Says how much a job that begins in this transaction has to do. */
export async function setTotal(
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

/** What became of an item. */
export interface NewResult {
  position: number;
  item: string;
  contact_id?: string | null;
  status: ItemStatus;
  reason?: ItemReason | null;
  /** Credits. */
  charged: number;
  result?: object | null;
}

/**
 * Keeps results of a job that is locked, each position once, and counts them. A delivery that came through ends a row of
 * failures, and makes the lease last on.
 * @param progress where the work goes on; as before when left out
 * @returns the credits to charge, which is for the rows that are new, and the job as it has become
 */
export async function saveResults(
  sql: Transaction,
  customerId: string,
  jobId: string,
  { results, progress }: { results: NewResult[]; progress?: object | undefined },
): Promise<JobRow & { charge: number }> {
  const [job] = await sql<[JobRow & { charge: number }]>`
    with come as (
      insert into job_results (customer_id, job_id, position, item, contact_id, status, reason, charged, result)
      select ${customerId}, ${jobId}, r.position, r.item, r.contact_id, r.status, r.reason, r.charged, r.result
      from jsonb_to_recordset(${sql.json(results as never)}) as r (
        position integer, item text, contact_id uuid, status text, reason text, charged integer, result jsonb
      )
      on conflict do nothing
      returning status, charged
    ),
    sums as (
      select
        count(*) filter (where status = 'succeeded') as succeeded,
        count(*) filter (where status = 'failed') as failed,
        count(*) filter (where status = 'skipped') as skipped,
        coalesce(sum(charged), 0) as charged,
        (select clock_timestamp()) + ${leaseSeconds} * interval '1 second' as lease_end
      from come
    )
    update jobs j
    set
      succeeded = j.succeeded + s.succeeded,
      failed = j.failed + s.failed,
      skipped = j.skipped + s.skipped,
      charged = j.charged + s.charged,
      progress = coalesce(${progress === undefined ? null : sql.json(progress as never)}::jsonb, j.progress),
      failures = 0,
      leased_until = case when j.lease is not null then s.lease_end end
    from sums s
    where j.customer_id = ${customerId}
      and j.id = ${jobId}
    returning ${jobColumns(sql)}, s.charged as charge`;
  return job;
}

/** How a job ends. */
export interface Ending {
  status: FinalStatus;
  /** For the customer to read. */
  error?: string;
}

/**
 * Ends a job that has not ended yet: the only statement that does.
 * @returns the credits to release; undefined when it had ended before
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
