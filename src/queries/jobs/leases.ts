import type { Locked, Queryable, Sql, Transaction } from '../../database/db.ts';
import { setOrigin } from '../../database/origin.ts';
import { aliveSeconds, typesOf, type JobQueue, type RunQueue } from '../../database/queues.ts';
import { findCustomersWith, type FindCustomers } from '../records/finders.ts';
import { enqueueTurn, sendTurn } from '../records/turns.ts';
import { importColumns, type ImportRow } from '../imports/import-progress.ts';
import { endpointColumns, type EndpointRow } from './endpoint-rows.ts';
import { jobColumns, type JobRow } from './jobs.ts';

interface RunRows extends Record<RunQueue, JobRow | ImportRow | EndpointRow> {
  unlock: JobRow;
  verify: JobRow;
  import: ImportRow;
  webhooks: EndpointRow;
}

export type Run<Q extends RunQueue = RunQueue> = RunRows[Q];

/** With the id of the worker's lease. */
export type Leased<Q extends RunQueue = RunQueue> = Run<Q> & { queue: Q; lease: string };

export type LeasedJob = Leased<JobQueue>;
export type LeasedImport = Leased<'import'>;

interface Store {
  table: Fragment;
  columns: Fragment;
  /** Condition on a row `r`: it is in this queue, and unfinished. */
  isUnfinished: Fragment;
  /** What a lease sets besides its own columns. `next.now` is the time. */
  begun: Fragment;
}

type Fragment = ReturnType<typeof jobColumns>;

function storeOf(sql: Queryable, queue: RunQueue): Store {
  const begun = sql`, status = 'PROCESSING', started_at = coalesce(r.started_at, next.now)`;
  switch (queue) {
    case 'webhooks':
      return {
        table: sql`webhook_endpoints`,
        columns: endpointColumns(sql),
        isUnfinished: sql`r.active`,
        begun: sql``,
      };
    case 'import': {
      const isUnfinished = sql`r.finished_at is null and r.status in ('PENDING', 'PROCESSING')`;
      return { table: sql`imports`, columns: importColumns(sql), isUnfinished, begun };
    }
    default: {
      const isUnfinished = sql`r.finished_at is null and r.type = any(${typesOf[queue] as string[]})`;
      return { table: sql`jobs`, columns: jobColumns(sql), isUnfinished, begun };
    }
  }
}

/** The run `r` is unfinished and in this queue, and its customer `c` is not suspended. */
const isOpen = (sql: Queryable, queue: RunQueue) => sql`
  ${storeOf(sql, queue).isUnfinished}
  and c.status = 'OK'`;

/** `isOpen`, and no worker has a valid lease. */
const isWaiting = (sql: Queryable, queue: RunQueue) => sql`
  ${isOpen(sql, queue)}
  and (r.leased_until is null or r.leased_until <= (select clock_timestamp()))`;

/**
 * Leases the waiting run of the customer that has not been processed for the longest time. Runs of a suspended customer
 * wait.
 * @param only id of the only run to consider
 * @returns undefined if no run is waiting
 */
export async function leaseRun<Q extends RunQueue>(
  sql: Transaction,
  customerId: string,
  queue: Q,
  only?: string,
): Promise<Leased<Q> | undefined> {
  const { table, columns, begun } = storeOf(sql, queue);
  const [run] = await sql<(Run<Q> & { lease: string })[]>`
    with next (next_id, now) as (
      select r.id, (select clock_timestamp())
      from ${table} r
      join customers c on c.id = r.customer_id
      where r.customer_id = ${customerId}
        ${only === undefined ? sql`` : sql`and r.id = ${only}`}
        and ${isWaiting(sql, queue)}
      order by r.served_at nulls first, r.id
      limit 1
      for no key update of r skip locked
    )
    update ${table} r
    set
      lease = (select gen_random_uuid()),
      leased_until = (select clock_timestamp()) + ${aliveSeconds} * interval '1 second',
      served_at = next.now
      ${begun}
    from next
    where r.customer_id = ${customerId}
      and r.id = next.next_id
    returning ${columns}, lease`;
  return run && { ...run, queue };
}

/**
 * Never shortens the lease.
 * @returns false if the lease is lost: another worker has the run, or the run has ended
 */
export async function renewLease(sql: Transaction, customerId: string, run: Leased): Promise<boolean> {
  const { table, isUnfinished } = storeOf(sql, run.queue);
  const { count } = await sql`
    update ${table} r
    set leased_until = greatest(r.leased_until, (select clock_timestamp()) + ${aliveSeconds} * interval '1 second')
    where r.customer_id = ${customerId}
      and r.id = ${run.id}
      and r.lease = ${run.lease}
      and ${isUnfinished}`;
  return count === 1;
}

/**
 * Locks the run's row until the transaction ends. Returns undefined if the lease is lost, because the run has ended or
 * another worker has taken it. One that has expired counts until then. Does not extend the lease. From then on, what the
 * transaction changes is told as of the job or import.
 */
export async function lockRun<Q extends RunQueue>(
  sql: Transaction,
  customerId: string,
  run: Leased<Q>,
): Promise<Locked<Run<Q>> | undefined> {
  const { table, columns } = storeOf(sql, run.queue);
  const [row] = await sql<Locked<Run<Q>>[]>`
    select ${columns}
    from ${table}
    where customer_id = ${customerId}
      and id = ${run.id}
      and lease = ${run.lease}
    for no key update`;
  if (row && 'actor' in row) setOrigin(sql, { changeId: row.id, ...(row.actor && { actor: row.actor }) });
  return row;
}

/** Ends a lease, so that any worker can take the run at once. Does nothing if it is already lost. */
export async function releaseLease(sql: Transaction, customerId: string, run: Leased): Promise<void> {
  await sql`
    update ${storeOf(sql, run.queue).table}
    set lease = null, leased_until = null
    where customer_id = ${customerId}
      and id = ${run.id}
      and lease = ${run.lease}`;
}

/**
 * Makes a run wait after an error, before a worker tries it again. Does nothing if the caller has lost the lease.
 * Afterwards nobody has a lease, so that a later `releaseLease` does not end the wait.
 * @param seconds time until a worker can take the run again
 * @param failed true if the run's count of `failures` must be increased
 */
export async function backOff(
  sql: Transaction,
  customerId: string,
  run: Leased,
  { seconds, failed }: { seconds: number; failed: boolean },
): Promise<void> {
  await sql`
    update ${storeOf(sql, run.queue).table}
    set
      lease = (select gen_random_uuid()),
      leased_until = (select clock_timestamp()) + ${seconds} * interval '1 second',
      failures = failures + ${failed ? 1 : 0}
    where customer_id = ${customerId}
      and id = ${run.id}
      and lease = ${run.lease}`;
}

interface NextTurn {
  /** Seconds from now until a run can be processed, rounded up. 0 if a run can be processed now. */
  seconds: number;
  /** Time at which a run can be processed: Unix time in seconds, rounded up. */
  at: number;
}

/**
 * Returns the earliest time at which a worker can process a run of this customer: now, or when another worker's lease
 * expires. Returns undefined when all runs have ended, or the customer is suspended.
 * @param least minimum number of seconds from now
 */
async function findNextTurn(
  sql: Transaction,
  customerId: string,
  queue: RunQueue,
  least: number,
): Promise<NextTurn | undefined> {
  const [next] = await sql<NextTurn[]>`
    select
      ceil(extract(epoch from due - (select clock_timestamp()))) as seconds,
      ceil(extract(epoch from due)) as at
    from (
      select min(greatest(r.leased_until, (select clock_timestamp()) + ${least} * interval '1 second')) as due
      from ${storeOf(sql, queue).table} r
      join customers c on c.id = r.customer_id
      where r.customer_id = ${customerId}
        and ${isOpen(sql, queue)}
    ) first
    where due is not null`;
  return next;
}

/**
 * Enqueues a message for the customer's next run (job or import) in one queue. Workers get the message when the run may
 * be processed. Does nothing if no run is left.
 * @param least Minimum number of seconds before workers get the message.
 */
export async function enqueueNextTurn(sql: Transaction, queue: RunQueue, customerId: string, least = 0): Promise<void> {
  const next = await findNextTurn(sql, customerId, queue, least);
  if (!next) return;
  if (next.seconds <= 0) return enqueueTurn(sql, queue, customerId);
  // Named by its time: one delayed turn per second is enough.
  await sendTurn(sql, queue, customerId, { name: String(next.at), seconds: next.seconds });
}

export async function areOthersWaiting(sql: Sql, customerId: string, queue: RunQueue): Promise<boolean> {
  const [row] = await sql<[{ wait: boolean }]>`
    select exists (
      select 1
      from ${storeOf(sql, queue).table} r
      join customers c on c.id = r.customer_id
      where ${isWaiting(sql, queue)}
        and c.id <> ${customerId}
    ) as wait`;
  return row.wait;
}

/** Finds customers that have a waiting run in this queue. */
export const findWaitingCustomers = (queue: RunQueue): FindCustomers =>
  findCustomersWith(
    (sql) => sql`
      from ${storeOf(sql, queue).table} r
      join customers c on c.id = r.customer_id
      where ${isWaiting(sql, queue)}`,
  );
