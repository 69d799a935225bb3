import type { Locked, Queryable, Transaction } from '../../database/db.ts';
import { setOrigin } from '../../database/origin.ts';
import { typesOf, type JobQueue, type RunQueue } from '../../database/queues.ts';
import { findCustomersWith, type FindCustomers } from '../records/finders.ts';
import { importColumns, type ImportRow } from '../imports/import-progress.ts';
import { jobColumns, type JobRow } from './jobs.ts';

interface RunRows extends Record<RunQueue, JobRow | ImportRow> {
  unlock: JobRow;
  verify: JobRow;
  import: ImportRow;
}

export type Run<Q extends RunQueue = RunQueue> = RunRows[Q];

/** A run that a turn has taken. A later turn that takes it raises `attempt`; then this one can write nothing any more. */
export type Taken<Q extends RunQueue = RunQueue> = Run<Q> & {
  queue: Q;
  attempt: number;
};

export type TakenJob = Taken<JobQueue>;
export type TakenImport = Taken<'import'>;

type Fragment = ReturnType<typeof jobColumns>;

const tableOf = (sql: Queryable, queue: RunQueue): Fragment => (queue === 'import' ? sql`imports` : sql`jobs`);

const columnsOf = (sql: Queryable, queue: RunQueue): Fragment =>
  queue === 'import' ? importColumns(sql) : jobColumns(sql);

/**
 * The run `r` is unfinished and in this queue, it does not rest, and its customer `c` is not suspended. No rest takes a
 * minute: a time after that was written before the database's clock was set back.
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

/** Which runs are free: those without a turn, and those whose turn is one of `dead`, or else is none of `active`. */
type Holders = { dead: readonly string[] } | { active: readonly string[] };

const isFree = (sql: Queryable, holders: Holders) =>
  'dead' in holders
    ? sql`(r.turn is null or r.turn = any(${holders.dead as string[]}::uuid[]))`
    : sql`(r.turn is null or r.turn <> all(${holders.active as string[]}::uuid[]))`;

type Taking = Holders & {
  /** Id of the message of the turn. Null: any turn may take the run from it. */
  turn: string | null;
  /** Id of the only run to consider. */
  only?: string | undefined;
};

/**
 * Takes the free run of the customer that has not been processed for the longest time. Runs of a suspended customer
 * wait.
 * @returns undefined if no run is free
 */
export async function takeRun<Q extends RunQueue>(
  sql: Transaction,
  customerId: string,
  queue: Q,
  { turn, only, ...holders }: Taking,
): Promise<Taken<Q> | undefined> {
  const table = tableOf(sql, queue);
  const [run] = await sql<(Run<Q> & { attempt: number })[]>`
    with next (next_id, now) as (
      select r.id, (select clock_timestamp())
      from ${table} r
      join customers c on c.id = r.customer_id
      where r.customer_id = ${customerId}
        ${only === undefined ? sql`` : sql`and r.id = ${only}`}
        and ${isDue(sql, queue)}
        and ${isFree(sql, holders)}
      order by r.due_at nulls first, r.id
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
 * Locks the run's row until the transaction ends. Returns undefined if the run has ended, or another turn has taken it.
 * From then on, what the transaction changes is told as of the job or import.
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

/** Lets any turn take a run. Does nothing if another turn has taken it. */
export async function releaseRun(sql: Transaction, customerId: string, { queue, id, attempt }: Taken): Promise<void> {
  await sql`
    update ${tableOf(sql, queue)}
    set turn = null
    where customer_id = ${customerId}
      and id = ${id}
      and attempt = ${attempt}`;
}

/**
 * Makes a run rest: no turn takes it meanwhile. The caller has locked it, and enqueues a turn for the end of the rest. Both
 * count from the beginning of the transaction: a message must not come before.
 * @param failed true if the run's count of `failures` must be increased
 */
export async function restRun(
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

/**
 * True if the customer has an unfinished run in this queue that does not rest.
 * @param besides `except`: a run that does not count. Runs that are not free do not count either
 */
export async function hasDueRun(
  sql: Transaction,
  customerId: string,
  queue: RunQueue,
  { except, ...holders }: { except?: string } & Holders = { dead: [] },
): Promise<boolean> {
  const [row] = await sql<[{ due: boolean }]>`
    select exists (
      select 1
      from ${tableOf(sql, queue)} r
      join customers c on c.id = r.customer_id
      where r.customer_id = ${customerId}
        and ${isDue(sql, queue)}
        and ${isFree(sql, holders)}
        ${except === undefined ? sql`` : sql`and r.id <> ${except}`}
    ) as due`;
  return row.due;
}

/** Lets any turn take a customer's runs. The queue has none of its messages any more. */
export async function freeRuns(sql: Transaction, customerId: string, queue: RunQueue): Promise<void> {
  await sql`
    update ${tableOf(sql, queue)} r
    set turn = null
    where r.customer_id = ${customerId}
      and r.turn is not null
      and r.finished_at is null
      ${queue === 'import' ? sql`` : sql`and r.type = any(${typesOf[queue] as string[]})`}`;
}

/** Finds customers that have a run in this queue which does not rest. */
export const findCustomersWithRuns = (queue: RunQueue): FindCustomers =>
  findCustomersWith(
    (sql) => sql`
      from ${tableOf(sql, queue)} r
      join customers c on c.id = r.customer_id
      where ${isDue(sql, queue)}`,
  );
