import { afterCommit, originOf } from '../../database/db.ts';
import type { Locked, LockedId, Queryable, Transaction, Database, Sql } from '../../database/db.ts';
import { finishedJobs } from '../../process/metrics.ts';
import { paidJobTypes, poolOf } from '../../schemas/jobs.ts';
import type {
  Pool,
  FinalStatus,
  ItemReason,
  ItemStatus,
  JobStatus,
  JobType,
  Job,
  JobItem,
  JobQuery,
  VisibleJobs,
} from '../../schemas/jobs.ts';
import type { EventActor } from '../../schemas/events.ts';
import { currentTrace } from '../../process/tracing.ts';
import type { Verification } from '../../schemas/verification.ts';
import { notFound } from '../../errors.ts';
import type { Column } from '../../filters/columns.ts';
import { isAfter, limitAndOffset, readPage } from '../records/finders.ts';
import type { PageById, PageOrCursor, RecordPage } from '../records/finders.ts';

/**
 * Part of a verification job's request. The job reuses results from at most `reuse_hours` before its start. 0 forbids
 * reuse; older jobs lack the field.
 */
export interface Reusing {
  reuse_hours?: number;
}

export const reuseHoursOf = ({ request }: Pick<JobRow, 'request'>): number => (request as Reusing).reuse_hours ?? 0;

export interface JobRow extends Pick<Job, 'id' | 'type' | 'sync_crm' | 'total' | 'succeeded' | 'failed' | 'skipped'> {
  customer_id: string;
  request: unknown;
  pool: Pool;
  cost: number;
  /** Credits reserved for the job, including those already charged. */
  reserved: number;
  charged: number;
  /**
   * Position where the job resumes. Null at the start. If the job has inputs, all inputs up to `progress.position` have
   * a result.
   */
  progress: unknown;
  failures: number;
  is_waiting: boolean;
  /**
   * True if the job had waited an hour for a reliable name server when a worker took it. The job must then complete
   * without one.
   */
  has_waited: boolean;
  /** Actor that started the job. Null for jobs from before release 1.1.0. */
  actor: EventActor | null;
  request_id: string | null;
}

export const jobColumns = (sql: Queryable) => sql`
  customer_id, id, type, sync_crm, request, pool, total, cost, succeeded, failed, skipped, reserved, charged, progress,
  failures, actor, request_id, waiting_since is not null as is_waiting,
  coalesce(due_at - waiting_since >= interval '1 hour', false) as has_waited`;

export interface NewJob extends Pick<JobRow, 'type' | 'sync_crm' | 'total' | 'cost' | 'reserved'> {
  /** Id of the API key whose spend caps limit the job. Null: no key started the job. */
  api_key_id: string | null;
  request: object;
}

/**
 * Inserts a job. In the same transaction, the caller must insert the inputs, reserve the credits, and enqueue a
 * message.
 */
export async function insertJob(sql: Transaction, customerId: string, given: NewJob) {
  const { api_key_id, type, sync_crm, request, total, cost, reserved } = given;
  const { actor, requestId = null } = originOf(sql);
  const [job] = await sql<[{ id: string; status: JobStatus }]>`
    insert into jobs (customer_id, api_key_id, type, sync_crm, request, pool, total, cost, reserved, actor, request_id)
    values (
      ${customerId}, ${api_key_id}, ${type}, ${sync_crm}, ${sql.json({ ...request, ...currentTrace() })}, ${poolOf(type)},
      ${total}, ${cost}, ${reserved}, ${sql.json({ ...actor })}, ${requestId}
    )
    returning id, status`;
  return job;
}

export async function requireJob(sql: Transaction, customerId: string, id: LockedId): Promise<Locked<JobRow>> {
  const [job] = await sql<[Locked<JobRow>]>`
    select ${jobColumns(sql)}
    from jobs
    where customer_id = ${customerId}
      and id = ${id}`;
  return job;
}

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

export interface NewResult
  extends Pick<JobItem, 'item' | 'status' | 'charged'>, Partial<Pick<JobItem, 'contact_id' | 'reason'>> {
  position: number;
  result?: object | null;
  /** Verified address, folded (lower case, no accents). Only set if later jobs can reuse the result. */
  verified_address?: string | null;
}

/**
 * Saves results, and adds them to the counts of the job. Ignores results for inputs that already have one. Resets the
 * number of failures to 0.
 * @param progress position where the job resumes; undefined keeps the stored one
 * @returns the updated job, with the credits to charge for the new results (`charge`)
 */
export async function saveResults(
  sql: Transaction,
  customerId: string,
  jobId: LockedId,
  { results, progress }: { results: NewResult[]; progress?: object | undefined },
): Promise<JobRow & { charge: number }> {
  const [job] = await sql<[JobRow & { charge: number }]>`
    with added as (
      insert into job_results (
        customer_id, job_id, position, item, contact_id, status, reason, charged, result, verified_address
      )
      select
        ${customerId}, ${jobId}, r.position, r.item, r.contact_id, r.status, r.reason, r.charged, r.result,
        r.verified_address
      from jsonb_to_recordset(${sql.json(results as never)}) as r (
        position integer, item text, contact_id uuid, status text, reason text, charged integer, result jsonb,
        verified_address text
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

export async function setWaiting(sql: Transaction, customerId: string, jobId: LockedId, isWaiting: boolean) {
  await sql`
    update jobs
    set
      waiting_for = ${isWaiting ? 'name_server' : null},
      waiting_since = ${isWaiting ? sql`coalesce(waiting_since, now())` : sql`null`}
    where customer_id = ${customerId}
      and id = ${jobId}`;
}

export interface Ending {
  status: FinalStatus;
  error?: string;
}

type EndedJob = Pick<JobRow, 'type' | 'pool' | 'succeeded' | 'failed' | 'skipped' | 'charged'> & {
  api_key_id: string | null;
  actor: EventActor | null;
  refunded: number;
};

// Removes `progress.after`, which names the person at whom a search has stopped.
/**
 * Sets the final status of a job.
 * @returns the ended job, with the reserved credits that were not charged (`refunded`); undefined if the job had
 *   already ended
 */
export async function closeJob(sql: Transaction, customerId: string, jobId: string, { status, error }: Ending) {
  const [job] = await sql<EndedJob[]>`
    update jobs
    set
      status = ${status},
      error = ${error ?? null},
      refunded = reserved - charged,
      turn = null,
      waiting_for = null,
      waiting_since = null,
      progress = progress - 'after',
      finished_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${jobId}
      and finished_at is null
    returning api_key_id, type, pool, succeeded, failed, skipped, charged, refunded, actor`;
  if (job) afterCommit(sql, () => finishedJobs.inc({ type: job.type, status }));
  return job;
}

const isVisible = (sql: Queryable, { types, scopes }: VisibleJobs) => sql`
  j.type = any(${types as JobType[]}::text[])
  and coalesce(j.request -> 'needs' <@ ${sql.json(scopes)}::jsonb, true)`;

const projection = (sql: Queryable) => sql`
  j.id,
  j.type,
  j.status,
  j.sync_crm,
  j.total,
  j.succeeded + j.failed + j.skipped as processed,
  j.succeeded,
  j.failed,
  j.skipped,
  jsonb_build_object('pool', case when j.type = any(${paidJobTypes}) then j.pool end, 'reserved', j.reserved, 'charged', j.charged, 'refunded', j.refunded) as credits,
  j.error,
  j.waiting_for,
  j.created_at,
  j.started_at,
  j.finished_at`;

export const findJobViews = (sql: Queryable, customerId: string, ids: string[], visible: VisibleJobs) => sql<Job[]>`
  select ${projection(sql)}
  from jobs j
  where j.customer_id = ${customerId}
    and j.id = any(${ids}::uuid[])
    and ${isVisible(sql, visible)}`;

export async function requireJobView(
  sql: Queryable,
  customerId: string,
  id: string,
  visible: VisibleJobs,
): Promise<Job> {
  const [job] = await findJobViews(sql, customerId, [id], visible);
  if (!job) throw notFound('job');
  return job;
}

type JobFilters = NonNullable<JobQuery['filters']> & { actor_id?: string };

export const listJobs = (
  sql: Sql,
  customerId: string,
  { filters = {}, paginate }: { filters?: JobFilters | undefined; paginate?: PageById },
  visible: VisibleJobs,
): Promise<Job[]> => sql`
  select ${projection(sql)}
  from jobs j
  where j.customer_id = ${customerId}
    and ${isVisible(sql, visible)}
    ${filters.type === undefined ? sql`` : sql`and j.type = ${filters.type}`}
    ${filters.status === undefined ? sql`` : sql`and j.status = ${filters.status}`}
    ${filters.actor_id === undefined ? sql`` : sql`and j.actor ->> 'id' = ${filters.actor_id}`}
    and ${isAfter(sql, 'j.id', paginate)}
  order by j.id desc
  ${limitAndOffset(sql, paginate)}`;

interface Start {
  id: string;
  actor: EventActor | null;
  /** Filters of a job that is about all who match. */
  filters: object | null;
}

/** Returns who has started jobs, and with which filters, by the ids of the jobs. */
export async function findStarts(
  sql: Sql,
  customerId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Start>> {
  const jobs = await sql<Start[]>`
    select id, actor, request -> 'filters' as filters
    from jobs
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
  return new Map(jobs.map((job) => [job.id, job]));
}

const position: Column = { type: 'integer', value: 'position', raw: 'position', required: true };

export const listItems = (
  db: Database,
  customerId: string,
  id: string,
  paginate: PageOrCursor = {},
  visible: VisibleJobs,
  status?: ItemStatus,
): Promise<RecordPage<JobItem>> =>
  readPage(
    {
      list: ['results', id],
      customerId,
      columns: [position],
      positionOf: (row: JobItem & { position: number }) => ({ id, values: [row.position] }),
    },
    paginate,
    (after) =>
      db.search(async (sql) => {
        await requireJobView(sql, customerId, id, visible);
        return sql<(JobItem & { position: number })[]>`
          select
            position, item, contact_id, status, reason, charged, coalesce(result -> 'reused' = 'true', false) as reused,
            result, finished_at
          from job_results
          where customer_id = ${customerId}
            and job_id = ${id}
            ${status === undefined ? sql`` : sql`and status = ${status}`}
            ${after === undefined ? sql`` : sql`and position > ${after.values[0] as number}`}
          order by position
          ${limitAndOffset(sql, paginate)}`;
      }),
  );

/**
 * Locks a job, so that workers cannot save results, and returns its status.
 * @throws DomainError `not_found`, also if the caller may not see the job
 */
export async function lockJob(sql: Transaction, customerId: string, id: string, visible: VisibleJobs) {
  const [job] = await sql<Locked<{ status: JobStatus }>[]>`
    select j.id, j.status
    from jobs j
    where j.customer_id = ${customerId}
      and j.id = ${id}
      and ${isVisible(sql, visible)}
    for no key update`;
  if (!job) throw notFound('job');
  return job;
}

export async function skipOpenInputs(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await sql`
    with skips as (
      insert into job_results (customer_id, job_id, position, item, contact_id, status, reason, charged)
      select
        customer_id, job_id, position, item, case when cardinality(contact_ids) = 1 then contact_ids[1] end,
        'skipped', 'cancelled', 0
      from job_inputs
      where customer_id = ${customerId}
        and job_id = ${id}
      on conflict do nothing
      returning position
    )
    update jobs
    set skipped = skipped + (select count(*) from skips)
    where customer_id = ${customerId}
      and id = ${id}`;
}

export const countOutcomes = (
  sql: Sql,
  customerId: string,
  id: string,
): Promise<{ status: Verification['status']; number: number }[]> => sql`
  select result ->> 'status' as status, count(*) as number
  from job_results
  where customer_id = ${customerId}
    and job_id = ${id}
    and result is not null
  group by 1
  order by 2 desc, 1`;

export const findReason = (sql: Sql, customerId: string, id: string): Promise<{ reason: ItemReason }[]> => sql`
  select reason
  from job_results
  where customer_id = ${customerId}
    and job_id = ${id}
    and reason is not null
  limit 1`;

export type OwnedJob = Job & { customer_id: string };

export const listLatestJobs = (
  sql: Sql,
  { customer, status, limit }: { customer?: string; status?: JobStatus; limit: number },
): Promise<OwnedJob[]> => sql`
  select j.customer_id, ${projection(sql)}
  from jobs j
  where ${customer === undefined ? sql`true` : sql`j.customer_id = ${customer}`}
    ${status === undefined ? sql`` : sql`and j.status = ${status}`}
  order by j.id desc
  limit ${limit}`;
