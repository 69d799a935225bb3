import type { Sql, Transaction } from '../database/db.ts';
import type { JobType } from '../schemas/jobs.ts';
import { jobColumns, leaseSeconds, type JobRow } from './jobs.ts';

/** A job with the lease of the worker that runs it. A lease is a worker's time-limited claim on a job. */
export interface LeasedJob extends JobRow {
  lease: string;
}

/** A kind of turns. A turn is one worker's go at one customer's jobs; a message in the queue starts it. */
export interface TurnKind {
  /** Name of the queue. */
  queue: string;
  types: readonly JobType[];
}

/**
 * Blocks the customer's turns from looking for jobs until this transaction commits the new job. Without the block a job
 * could be lost: its transaction finds a message in the queue and sends none, but the turn of that message looks for
 * jobs before the commit.
 */
export async function blockTurns(sql: Transaction, customerId: string, { queue }: TurnKind): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${turnsLock(sql, customerId, queue)})`;
}

/**
 * Waits for all transactions that called `blockTurns` for this customer and queue to end. The next statement of this
 * transaction sees their jobs.
 */
export async function waitForJobStarts(sql: Transaction, customerId: string, { queue }: TurnKind): Promise<void> {
  await sql`select pg_advisory_xact_lock(${turnsLock(sql, customerId, queue)})`;
}

const turnsLock = (sql: Transaction, customerId: string, queue: string) =>
  sql`hashtextextended(${`turns:${queue}:${customerId}`}, 0)`;

/**
 * Leases one waiting job of the customer: the job of these types whose last turn was longest ago. Jobs of a suspended
 * customer wait until the customer is resumed.
 * @returns the job, or undefined if no job waits
 */
export async function leaseJob(sql: Transaction, customerId: string, turns: TurnKind): Promise<LeasedJob | undefined> {
  const [job] = await sql<LeasedJob[]>`
    with next as (
      select j.id, (select clock_timestamp()) as now
      from jobs j
      join customers c on c.id = j.customer_id
      where j.customer_id = ${customerId}
        and ${isWaiting(sql, turns)}
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
 * Renews a lease. It never shortens the lease: while this statement waits for the row, another transaction of the
 * worker may have renewed the lease.
 * @returns false when the lease is lost: another worker has the job, or the job has ended
 */
export async function renewLease(sql: Sql | Transaction, customerId: string, job: LeasedJob): Promise<boolean> {
  const { count } = await sql`
    update jobs
    set leased_until = greatest(leased_until, (select clock_timestamp()) + ${leaseSeconds} * interval '1 second')
    where customer_id = ${customerId}
      and id = ${job.id}
      and lease = ${job.lease}`;
  return count === 1;
}

/** Locks a leased job until the transaction ends, and returns the job; undefined if the lease is lost. */
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

/** Releases a lease, so that another worker can lease the job at once. Does nothing if the lease is lost. */
export async function releaseLease(sql: Transaction, customerId: string, job: LeasedJob): Promise<void> {
  await sql`
    update jobs
    set lease = null, leased_until = null
    where customer_id = ${customerId}
      and id = ${job.id}
      and lease = ${job.lease}`;
}

/**
 * Backs off after an error: replaces the lease by one that no worker has, so that the job waits before it is tried
 * again. Does nothing if the lease is lost.
 * @param seconds time until the job can be leased again
 * @param failed whether the error counts in the job's `failures`
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

/** The earliest time at which a customer's next turn can find a job. */
export interface NextTurn {
  /** Seconds from now, rounded up; 0 when a job waits now. */
  seconds: number;
  /** Unix time in seconds, rounded up. */
  at: number;
}

/**
 * Returns when the customer's next turn can find a job of these types: now, or when the first lease expires. Returns
 * undefined when all jobs have ended, or the customer is suspended.
 */
export async function findNextTurn(
  sql: Transaction,
  customerId: string,
  { types }: TurnKind,
): Promise<NextTurn | undefined> {
  const [next] = await sql<NextTurn[]>`
    select
      ceil(extract(epoch from due - (select clock_timestamp()))) as seconds,
      ceil(extract(epoch from due)) as at
    from (
      select min(greatest(j.leased_until, (select clock_timestamp()))) as due
      from jobs j
      join customers c on c.id = j.customer_id
      where j.customer_id = ${customerId}
        and j.finished_at is null
        and j.type = any(${types as string[]})
        and c.status = 'OK'
    ) first
    where due is not null`;
  return next;
}

/** Returns whether another customer than `customerId` has a waiting job of these types. */
export async function areOthersWaiting(sql: Transaction, customerId: string, turns: TurnKind): Promise<boolean> {
  const [row] = await sql<[{ wait: boolean }]>`
    select exists (
      select from jobs j join customers c on c.id = j.customer_id where ${isWaiting(sql, turns)} and c.id <> ${customerId}
    ) as wait`;
  return row.wait;
}

/**
 * Returns the ids of customers that have a waiting job of these types, ordered by id, over all customers.
 * @param after last id of the page before
 */
export async function findWaitingCustomers(
  sql: Sql | Transaction,
  turns: TurnKind,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    select distinct j.customer_id
    from jobs j
    join customers c on c.id = j.customer_id
    where ${isWaiting(sql, turns)}
      and j.customer_id > ${after}
    order by j.customer_id
    limit ${limit}`;
  return rows.map((row) => row.customer_id);
}

/** SQL condition: job `j` of customer `c` is unfinished, has no valid lease, and the customer is not suspended. */
const isWaiting = (sql: Sql | Transaction, { types }: TurnKind) => sql`
  j.finished_at is null
  and j.type = any(${types as string[]})
  and (j.leased_until is null or j.leased_until <= (select clock_timestamp()))
  and c.status = 'OK'`;
