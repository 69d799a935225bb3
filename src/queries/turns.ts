import type { Sql, Transaction } from '../db.ts';
import type { JobType } from '../schemas/jobs.ts';
import { jobColumns, leaseSeconds, type JobRow } from './jobs.ts';

/** A job with the lease of the turn that works at it. */
export interface LeasedJob extends JobRow {
  lease: string;
}

/** Jobs of a kind that a customer's turns are taken at. */
export interface Turns {
  /** A name of the kind. */
  queue: string;
  types: readonly JobType[];
}

/**
 * Keeps the customer's turns from looking for jobs until this transaction ends: one that finds its message waiting already
 * would be lost, if the turn of that message looked before the job is there.
 */
export async function delayTurns(sql: Transaction, customerId: string, { queue }: Turns): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${turnsLock(sql, customerId, queue)})`;
}

/** Waits for those that delay the turns. A statement after this one sees what they have made. */
export async function awaitStarts(sql: Transaction, customerId: string, { queue }: Turns): Promise<void> {
  await sql`select pg_advisory_xact_lock(${turnsLock(sql, customerId, queue)})`;
}

const turnsLock = (sql: Transaction, customerId: string, queue: string) =>
  sql`hashtextextended(${`turns:${queue}:${customerId}`}, 0)`;

/**
 * Takes a lease on the customer's job of these types whose last turn was longest ago, if one waits. Jobs of a suspended
 * customer wait until it is resumed.
 */
export async function leaseJob(sql: Transaction, customerId: string, turns: Turns): Promise<LeasedJob | undefined> {
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
 * Makes a lease last on. Answers false when it is lost: another turn has the job, or the job has ended. Never shortens it: while
 * this waits for the row, a delivery may have renewed the lease.
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

/** Locks the job for the rest of the transaction, if the lease still holds. */
export async function holdJob(sql: Transaction, customerId: string, job: LeasedJob): Promise<JobRow | undefined> {
  const [row] = await sql<JobRow[]>`
    select ${jobColumns(sql)}
    from jobs j
    where j.customer_id = ${customerId}
      and j.id = ${job.id}
      and j.lease = ${job.lease}
    for no key update`;
  return row;
}

/** Gives a lease back, if it still holds. */
export async function dropLease(sql: Transaction, customerId: string, job: LeasedJob): Promise<void> {
  await sql`
    update jobs
    set lease = null, leased_until = null
    where customer_id = ${customerId}
      and id = ${job.id}
      and lease = ${job.lease}`;
}

/**
 * Leases a job to nobody for some seconds, if the lease still holds: what went wrong is not tried again at once.
 * @param failed whether it counts as a failure of the job's own
 */
export async function restJob(
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

/** When a turn can begin. */
export interface NextTurn {
  /** Seconds from now; 0 when there is something to do. */
  seconds: number;
  /** The same as a time, rounded up: seconds of the epoch. */
  at: number;
}

/**
 * When the customer's next turn at jobs of these types can begin: now, or when the first lease ends; undefined when all jobs
 * have ended, or the customer is suspended.
 */
export async function findNextTurn(
  sql: Transaction,
  customerId: string,
  { types }: Turns,
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

/** Whether a customer other than this one has a job of these types that waits and nobody works at. */
export async function othersWait(sql: Transaction, customerId: string, turns: Turns): Promise<boolean> {
  const [row] = await sql<[{ wait: boolean }]>`
    select exists (
      select from jobs j join customers c on c.id = j.customer_id where ${isWaiting(sql, turns)} and c.id <> ${customerId}
    ) as wait`;
  return row.wait;
}

/**
 * Customers, of all, with jobs of these types that wait and nobody works at, in the order of their ids.
 * @param after the last customer of the batch before
 */
export async function customersWaiting(
  sql: Sql | Transaction,
  turns: Turns,
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

/** A job `j` of a customer `c` can be worked at, and is not. */
const isWaiting = (sql: Sql | Transaction, { types }: Turns) => sql`
  j.finished_at is null
  and j.type = any(${types as string[]})
  and (j.leased_until is null or j.leased_until <= (select clock_timestamp()))
  and c.status = 'OK'`;
