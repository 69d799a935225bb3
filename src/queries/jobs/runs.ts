import { setOrigin } from '../../database/db.ts';
import type { Queryable, Transaction, Locked, Sql, LockedId } from '../../database/db.ts';
import type { Verification } from '../../schemas/verification.ts';
import { earlierVerification, sinceOfJob } from '../crm/enrichment.ts';
import { typesOf, type RunQueue, type RunType } from '../../database/queues.ts';
import { findCustomersWith, type FindCustomers } from '../records/finders.ts';
import { importColumns, type ImportRow } from './imports.ts';
import { jobColumns, type JobRow } from './jobs.ts';
import type { JobStatus } from '../../schemas/jobs.ts';
import { removeRows } from '../records/turns.ts';

export interface JobInput {
  position: number;
  item: string;
  /** E-mail address to verify, folded (lower case, no accents). Null in other jobs. */
  address: string | null;
  contact_ids: string[];
  /** True if an earlier input of the job has the same item. Such an input is not processed again. */
  is_duplicate: boolean;
}

export async function insertInputs(sql: Transaction, customerId: string, jobId: string, inputs: JobInput[]) {
  await sql`
    insert into job_inputs (customer_id, job_id, position, item, address, contact_ids, is_duplicate)
    select ${customerId}, ${jobId}, i.position, i.item, i.address, i.contact_ids, i.is_duplicate
    from jsonb_to_recordset(${sql.json(inputs as never)})
      as i (position integer, item text, address text, contact_ids uuid[], is_duplicate boolean)`;
}

// Written as a subquery: with `not exists`, the planner may read all results of the job for each input.
const isOpen = (sql: Queryable, customerId: string, jobId: string) => sql`
  (
    select r.position
    from job_results r
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and r.position = i.position
  ) is null`;

const inputsOf = (sql: Queryable, customerId: string, jobId: string, more = sql``) => sql`
  select i.position, i.item, i.address, i.contact_ids, i.is_duplicate ${more}
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}`;

/**
 * Returns the next inputs without a result, in order. Call it only if all inputs up to position `after` have a result.
 */
export const findNextInputs = (
  sql: Queryable,
  customerId: string,
  jobId: string,
  { after, limit }: { after: number; limit: number },
): Promise<JobInput[]> => sql`
  ${inputsOf(sql, customerId, jobId)}
    and i.position > ${after}
    and ${isOpen(sql, customerId, jobId)}
  order by i.position
  limit ${limit}`;

export interface EmailInput extends JobInput {
  earlier: Verification | null;
}

/**
 * Returns the next e-mail addresses without a result, in order, except duplicates. Call it only if all inputs up to
 * position `after` have a result.
 * @param reuseHours maximum age of results of other jobs that the job reuses (hours before its start). 0: none
 */
export const findNextEmails = (
  sql: Queryable,
  customerId: string,
  jobId: string,
  { after, limit, reuseHours }: { after: number; limit: number; reuseHours: number },
): Promise<EmailInput[]> => {
  const since = sinceOfJob(sql, jobId, reuseHours);
  const earlier = reuseHours > 0 ? earlierVerification(sql, customerId, sql`i.address`, since) : sql`null`;
  return sql`
    ${inputsOf(sql, customerId, jobId, sql`, ${earlier} as earlier`)}
      and i.position > ${after}
      and not i.is_duplicate
      and ${isOpen(sql, customerId, jobId)}
    order by i.position
    limit ${limit}`;
};

export const findDuplicateInputs = (sql: Queryable, customerId: string, jobId: string): Promise<JobInput[]> => sql`
  ${inputsOf(sql, customerId, jobId)}
    and i.is_duplicate
  order by i.position`;

/**
 * Copies the inputs of a job that have no result, or the result `cancelled`, to another job. Keeps their order.
 * @returns the number of copies (`total`), and their items without duplicates
 */
export async function copyOpenInputs(
  sql: Transaction,
  customerId: string,
  { from, to }: { from: string; to: string },
): Promise<{ total: number; items: string[] }> {
  const rows = await sql<{ item: string; is_duplicate: boolean }[]>`
    insert into job_inputs (customer_id, job_id, position, item, address, contact_ids, is_duplicate)
    select i.customer_id, ${to}, row_number() over (order by i.position), i.item, i.address, i.contact_ids, i.is_duplicate
    from job_inputs i
    left join job_results r on r.customer_id = i.customer_id and r.job_id = i.job_id and r.position = i.position
    where i.customer_id = ${customerId}
      and i.job_id = ${from}
      and (r.position is null or r.reason = 'cancelled')
    returning item, is_duplicate`;
  return { total: rows.length, items: rows.filter((row) => !row.is_duplicate).map(({ item }) => item) };
}

interface RunRows extends Record<RunQueue, JobRow | ImportRow> {
  unlock: JobRow;
  verify: JobRow;
  import: ImportRow;
}

export type Run<Q extends RunQueue = RunQueue> = RunRows[Q];

/**
 * Run (job or import) that a turn is processing. Each turn that takes the run increases `attempt`. Only the turn with
 * the highest `attempt` can write.
 */
export type Taken<Q extends RunQueue = RunQueue> = Run<Q> & {
  queue: Q;
  attempt: number;
};

export type TakenImport = Taken<'import'>;

type Fragment = ReturnType<typeof jobColumns>;

const tableOf = (sql: Queryable, queue: RunQueue): Fragment => (queue === 'import' ? sql`imports` : sql`jobs`);

const columnsOf = (sql: Queryable, queue: RunQueue): Fragment =>
  queue === 'import' ? importColumns(sql) : jobColumns(sql);

// A rest takes less than a minute. A later end was written before the clock of the database was set back, so the run is
// due too.
/**
 * Returns the SQL condition that a worker may process the run `r` of this queue now. The run is unfinished and not
 * paused, and its customer `c` is not suspended.
 */
const isDue = (sql: Queryable, queue: RunQueue) => sql`
  r.finished_at is null
  and ${queue === 'import' ? sql`r.status in ('PENDING', 'PROCESSING')` : sql`r.type = any(${typesOf[queue] as string[]})`}
  and (
    r.due_at is null
    or r.due_at <= (select clock_timestamp())
    or r.due_at > (select clock_timestamp()) + interval '1 minute'
  )
  and c.status = 'OK'`;

const isFree = (sql: Queryable, turn: string | null) => sql`(r.turn is null or r.turn = ${turn}::uuid)`;

// A message that is delivered again must not leave the run of its dead worker behind: no other message frees that run.
/**
 * Takes the customer's free run that has waited longest, but first the run that an earlier delivery of the same message
 * has taken.
 * @param turn id of the queue's message for the turn. Null: any turn may take over the run
 * @returns undefined if no run is free, or the customer is suspended
 */
export async function takeRun<Q extends RunQueue>(
  sql: Transaction,
  customerId: string,
  queue: Q,
  turn: string | null,
): Promise<Taken<Q> | undefined> {
  const table = tableOf(sql, queue);
  const [run] = await sql<(Run<Q> & { attempt: number })[]>`
    with next (next_id, now) as (
      select r.id, (select clock_timestamp())
      from ${table} r
      join customers c on c.id = r.customer_id
      where r.customer_id = ${customerId}
        and ${isDue(sql, queue)}
        and ${isFree(sql, turn)}
      order by r.turn is distinct from ${turn}::uuid, r.due_at nulls first, r.id
      limit 1
      for no key update of r skip locked
    )
    update ${table} r
    set
      attempt = attempt + 1,
      turn = ${turn},
      due_at = next.now,
      status = 'PROCESSING',
      started_at = coalesce(r.started_at, next.now)
    from next
    where r.customer_id = ${customerId}
      and r.id = next.next_id
    returning ${columnsOf(sql, queue)}, attempt`;
  return run && { ...run, queue };
}

/**
 * Locks a run, and attributes later changes of the transaction to it. Returns undefined if the run has ended, or
 * another turn has taken it.
 */
export async function lockRun<Q extends RunQueue>(
  sql: Transaction,
  customerId: string,
  run: Taken<Q>,
): Promise<Locked<Run<Q>> | undefined> {
  const [row] = await sql<Locked<Run<Q>>[]>`
    select ${columnsOf(sql, run.queue)}
    from ${tableOf(sql, run.queue)}
    where customer_id = ${customerId}
      and id = ${run.id}
      and attempt = ${run.attempt}
      and finished_at is null
    for no key update`;
  if (row) setOrigin(sql, { changeId: row.id, ...(row.actor && { actor: row.actor }) });
  return row;
}

export async function releaseRun(sql: Transaction, customerId: string, { queue, id, attempt }: Taken): Promise<void> {
  await sql`
    update ${tableOf(sql, queue)}
    set turn = null
    where customer_id = ${customerId}
      and id = ${id}
      and attempt = ${attempt}`;
}

// Both times count from the start of the transaction, because the message must not come before the end of the rest.
/**
 * Pauses a run for some seconds. The caller has locked the run, and enqueues a turn for the end of the pause.
 * @param failed true increases the run's number of `failures`
 */
export async function pauseRun(
  sql: Transaction,
  customerId: string,
  { queue, id }: Taken,
  { seconds, failed = false }: { seconds: number; failed?: boolean },
): Promise<void> {
  await sql`
    update ${tableOf(sql, queue)}
    set
      turn = null,
      due_at = date_trunc('milliseconds', now()) + ${seconds} * interval '1 second',
      failures = failures + ${failed ? 1 : 0}
    where customer_id = ${customerId}
      and id = ${id}`;
}

export async function hasDueRun(
  sql: Transaction,
  customerId: string,
  queue: RunQueue,
  { except, turn = null }: { except?: string; turn?: string | null } = {},
): Promise<boolean> {
  const [row] = await sql<[{ due: boolean }]>`
    select exists (
      select 1
      from ${tableOf(sql, queue)} r
      join customers c on c.id = r.customer_id
      where r.customer_id = ${customerId}
        and ${isDue(sql, queue)}
        and ${isFree(sql, turn)}
        ${except === undefined ? sql`` : sql`and r.id <> ${except}`}
    ) as due`;
  return row.due;
}

/**
 * Frees all unfinished runs of a customer, so that any turn can take them. Call it only if the queue has no message for
 * the customer.
 */
export async function freeRuns(sql: Transaction, customerId: string, queue: RunQueue): Promise<void> {
  await sql`
    update ${tableOf(sql, queue)} r
    set turn = null
    where r.customer_id = ${customerId}
      and r.turn is not null
      and r.finished_at is null
      ${queue === 'import' ? sql`` : sql`and r.type = any(${typesOf[queue] as string[]})`}`;
}

export const findCustomersWithRuns = (queue: RunQueue): FindCustomers =>
  findCustomersWith(
    (sql) => sql`
      from ${tableOf(sql, queue)} r
      join customers c on c.id = r.customer_id
      where ${isDue(sql, queue)}`,
  );

export interface Backlog {
  /**
   * Number of unfinished jobs by type and status, and the age of the oldest (seconds). An import counts once its file
   * is completely uploaded.
   */
  jobs: { type: RunType; status: JobStatus; jobs: number; oldest_seconds: number }[];
  unindexed: number;
}

export async function readBacklog(sql: Sql): Promise<Backlog> {
  const [jobs, [unlocks]] = await Promise.all([
    sql<Backlog['jobs']>`
      select
        type,
        status,
        count(*) as jobs,
        extract(epoch from now() - min(created_at))::float8 as oldest_seconds
      from jobs
      where finished_at is null
      group by type, status
      union all
      select
        'import',
        status,
        count(*),
        extract(epoch from now() - min(due_at))::float8
      from imports
      where finished_at is null
        and status in ('PENDING', 'PROCESSING')
      group by status`,
    sql<[{ unindexed: number }]>`
      select count(*) as unindexed
      from unlocks
      where not in_catalog`,
  ]);
  return { jobs, unindexed: unlocks.unindexed };
}

interface JobHealth {
  /** False if a run has waited for a minute, and no worker process was seen in the last minute. */
  has_workers: boolean;
  has_names: boolean;
}

const isWorkerAlive = (sql: Sql, seconds: number) => sql`
  exists (
    select 1
    from pgboss.queue
    where greatest(monitor_on, monitor_claim_on) > now() - ${seconds} * interval '1 second'
  )`;

export async function hasWorker(sql: Sql, seconds: number): Promise<boolean> {
  const [row] = await sql<[{ alive: boolean }]>`select ${isWorkerAlive(sql, seconds)} as alive`;
  return row.alive;
}

/** Returns the health of the queues. Ignores the runs of suspended customers. */
export async function readJobHealth(sql: Sql): Promise<JobHealth> {
  const [row] = await sql<[JobHealth]>`
    select
      ${isWorkerAlive(sql, 60)} or not exists (
        select 1
        from jobs j
        join customers c on c.id = j.customer_id
        where j.finished_at is null
          and j.status = 'PENDING'
          and c.status = 'OK'
          and j.created_at < now() - interval '1 minute'
        union all
        select 1
        from imports i
        join customers c on c.id = i.customer_id
        where i.finished_at is null
          and i.status = 'PENDING'
          and c.status = 'OK'
          and i.due_at < now() - interval '1 minute'
      ) as has_workers,
      not exists (
        select 1
        from jobs j
        join customers c on c.id = j.customer_id
        where j.finished_at is null
          and j.waiting_for = 'name_server'
          and c.status = 'OK'
      ) as has_names`;
  return row;
}

const retention = '30 days';

export async function isRetained(sql: Transaction, customerId: string, jobId: LockedId): Promise<boolean> {
  const [job] = await sql<{ is_retained: boolean }[]>`
    select finished_at > (select clock_timestamp()) - ${retention}::interval and purged_at is null as is_retained
    from jobs
    where customer_id = ${customerId}
      and id = ${jobId}`;
  return job!.is_retained;
}

export async function findRetry(sql: Transaction, customerId: string, id: string): Promise<string | undefined> {
  const [retry] = await sql<{ id: string }[]>`
    select id
    from jobs
    where customer_id = ${customerId}
      and request ->> 'retry_of' = ${id}`;
  return retry?.id;
}

const batchSize = 5_000;

/**
 * Deletes a batch of inputs and results of one job that ended more than 30 days ago. Keeps the job and its ledger
 * entries.
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
