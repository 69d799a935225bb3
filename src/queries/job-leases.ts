import type { Sql, Transaction } from '../database/db.ts';
import type { JobType } from '../schemas/jobs.ts';
import { jobColumns, leaseSeconds, type JobRow } from './jobs.ts';

/** A job and the id of its lease. A lease is a worker's time-limited claim on a job. */
export interface LeasedJob extends JobRow {
  lease: string;
}

type Types = readonly JobType[];

/**
 * Makes workers wait until this transaction, which starts a job of the customer, has ended. Otherwise a worker could
 * consume the customer's only queue message before the new job is visible, and no message would remain for this job.
 */
export async function blockTurns(sql: Transaction, customerId: string, queue: string): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${turnsLock(sql, customerId, queue)})`;
}

/**
 * Waits until all transactions that are starting a job of this customer have ended. The next statement of this
 * transaction sees the new jobs.
 */
export async function waitForJobStarts(sql: Transaction, customerId: string, queue: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${turnsLock(sql, customerId, queue)})`;
}

const turnsLock = (sql: Transaction, customerId: string, queue: string) =>
  sql`hashtextextended(${`turns:${queue}:${customerId}`}, 0)`;

/**
 * Gives one waiting job of the customer to this worker for a limited time (a lease). Chooses the job that has not been
 * processed for the longest time. Jobs of a suspended customer wait until the customer is resumed.
 * @returns the job, or undefined if no job is waiting
 */
export async function leaseJob(sql: Transaction, customerId: string, types: Types): Promise<LeasedJob | undefined> {
  const [job] = await sql<LeasedJob[]>`
    with next as (
      select j.id, (select clock_timestamp()) as now
      from jobs j
      join customers c on c.id = j.customer_id
      where j.customer_id = ${customerId}
        and ${isWaiting(sql, types)}
      order by j.served_at nulls first, j.id
      limit 1
      for no key update of j skip locked
    )
    update jobs j
    set
      status = 'PROCESSING',
      lease = (select gen_random_uuid()),
      leased_until = (select clock_timestamp()) + ${leaseSeconds} * interval '1 second',
      served_at = next.now,
      started_at = coalesce(j.started_at, next.now)
    from next
    where j.customer_id = ${customerId}
      and j.id = next.id
    returning ${jobColumns(sql)}, j.lease`;
  return job;
}

/**
 * Extends a worker's time-limited claim on a job (its lease). Never shortens the lease.
 * @returns false when the lease is lost: another worker has the job, or the job has ended
 */
export async function renewLease(sql: Sql | Transaction, customerId: string, job: LeasedJob): Promise<boolean> {
  // Another transaction of the same worker may have renewed the lease with a later end.
  const { count } = await sql`
    update jobs
    set leased_until = greatest(leased_until, (select clock_timestamp()) + ${leaseSeconds} * interval '1 second')
    where customer_id = ${customerId}
      and id = ${job.id}
      and lease = ${job.lease}`;
  return count === 1;
}

/**
 * Locks the job's row until the transaction ends and returns the row. Returns undefined if the worker has lost its
 * time-limited claim on the job (`job.lease`), because the job has ended or another worker has taken it. A claim whose
 * time has passed counts until then. Does not extend the claim.
 */
export async function lockLeasedJob(sql: Transaction, customerId: string, job: LeasedJob): Promise<JobRow | undefined> {
  const [row] = await sql<JobRow[]>`
    select ${jobColumns(sql)}
    from jobs j
    where j.customer_id = ${customerId}
      and j.id = ${job.id}
      and j.lease = ${job.lease}
    for no key update`;
  return row;
}

/**
 * Ends a worker's time-limited claim on a job (its lease), so that any worker can take the job at once. Does nothing if
 * the worker has already lost the claim.
 */
export async function releaseLease(sql: Transaction, customerId: string, job: LeasedJob): Promise<void> {
  await sql`
    update jobs
    set lease = null, leased_until = null
    where customer_id = ${customerId}
      and id = ${job.id}
      and lease = ${job.lease}`;
}

/**
 * Makes a job wait after an error, before a worker tries it again. Does nothing if the caller has lost its time-limited
 * claim on the job (its lease). Afterwards nobody has a claim, so that a later `releaseLease` does not end the wait.
 * @param seconds time until a worker can take the job again
 * @param failed true if the job's count of `failures` must be increased
 */
export async function backOff(
  sql: Transaction,
  customerId: string,
  job: LeasedJob,
  { seconds, failed }: { seconds: number; failed: boolean },
): Promise<void> {
  await sql`
    update jobs
    set
      lease = (select gen_random_uuid()),
      leased_until = (select clock_timestamp()) + ${seconds} * interval '1 second',
      failures = failures + ${failed ? 1 : 0}
    where customer_id = ${customerId}
      and id = ${job.id}
      and lease = ${job.lease}`;
}

/** The earliest time at which a worker can process a job of one customer. */
export interface NextTurn {
  /** Seconds from now until a job can be processed, rounded up. 0 if a job can be processed now. */
  seconds: number;
  /** Time at which a job can be processed: Unix time in seconds, rounded up. */
  at: number;
}

/**
 * Returns the earliest time at which a worker can process a job of this customer: now, or when another worker's
 * time-limited claim (lease) on a job expires. Returns undefined when all jobs have ended, or the customer is
 * suspended.
 * @param least minimum number of seconds from now
 */
export async function findNextTurn(
  sql: Transaction,
  customerId: string,
  types: Types,
  least: number,
): Promise<NextTurn | undefined> {
  const [next] = await sql<NextTurn[]>`
    select
      ceil(extract(epoch from due - (select clock_timestamp()))) as seconds,
      ceil(extract(epoch from due)) as at
    from (
      select min(greatest(j.leased_until, (select clock_timestamp()) + ${least} * interval '1 second')) as due
      from jobs j
      join customers c on c.id = j.customer_id
      where j.customer_id = ${customerId}
        and j.finished_at is null
        and j.type = any(${types as JobType[]})
        and c.status = 'OK'
    ) first
    where due is not null`;
  return next;
}

/** Returns true if any customer other than `customerId` has a waiting job of these types. */
export async function areOthersWaiting(sql: Sql, customerId: string, types: Types): Promise<boolean> {
  const [row] = await sql<[{ wait: boolean }]>`
    select exists (
      select 1 from jobs j join customers c on c.id = j.customer_id where ${isWaiting(sql, types)} and c.id <> ${customerId}
    ) as wait`;
  return row.wait;
}

/**
 * Finds the customers that have a waiting job of these types. Returns one page of their ids, in ascending order.
 * @param after last customer id of the previous page
 */
export async function findWaitingCustomers(
  sql: Sql | Transaction,
  types: Types,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    select distinct j.customer_id
    from jobs j
    join customers c on c.id = j.customer_id
    where ${isWaiting(sql, types)}
      and j.customer_id > ${after}
    order by j.customer_id
    limit ${limit}`;
  return rows.map((row) => row.customer_id);
}

/**
 * SQL condition: the job `j` is unfinished, every lease on it has expired, and its customer `c` is not suspended.
 */
const isWaiting = (sql: Sql | Transaction, types: Types) => sql`
  j.finished_at is null
  and j.type = any(${types as JobType[]})
  and (j.leased_until is null or j.leased_until <= (select clock_timestamp()))
  and c.status = 'OK'`;
