import type { Database, Locked, LockedId, Queryable, Sql, Transaction } from '../../database/db.ts';
import type { Verification } from '../../schemas/verification.ts';
import { notFound } from '../../errors.ts';
import type { Column } from '../../filters/columns.ts';
import { scopeOf } from '../../filters/cursor.ts';
import { all } from '../../filters/tree.ts';
import type { Job, JobItem, JobQuery, JobStatus, JobType, VisibleJobs } from '../../schemas/jobs.ts';
import {
  cursorAfter,
  isAfter,
  limitAndOffset,
  positionBefore,
  type PageById,
  type PageOrCursor,
} from '../records/paging.ts';
import type { RecordPage } from '../records/paging.ts';

/** SQL condition: the caller may see the job `j`. */
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
  jsonb_build_object('pool', case when j.type <> 'undo' then j.pool end, 'reserved', j.reserved, 'charged', j.charged, 'refunded', j.refunded) as credits,
  j.error,
  j.waiting_for,
  j.created_at,
  j.started_at,
  j.finished_at`;

/**
 * Returns a job as the API shows it.
 * @throws DomainError `not_found`, also if it is not visible
 */
export async function requireJobView(
  sql: Queryable,
  customerId: string,
  id: string,
  visible: VisibleJobs,
): Promise<Job> {
  const [job] = await sql<Job[]>`
    select ${projection(sql)}
    from jobs j
    where j.customer_id = ${customerId}
      and j.id = ${id}
      and ${isVisible(sql, visible)}`;
  if (!job) throw notFound('job');
  return job;
}

export const findJobViews = (
  sql: Queryable,
  customerId: string,
  ids: string[],
  visible: VisibleJobs,
): Promise<Job[]> => sql<Job[]>`
  select ${projection(sql)}
  from jobs j
  where j.customer_id = ${customerId}
    and j.id = any(${ids}::uuid[])
    and ${isVisible(sql, visible)}`;

/** Newest first, without types that are not in `visible`. */
export const listJobs = (
  sql: Sql,
  customerId: string,
  { filters = {}, paginate }: { filters?: JobQuery['filters']; paginate?: PageById },
  visible: VisibleJobs,
): Promise<Job[]> => sql<Job[]>`
  select ${projection(sql)}
  from jobs j
  where j.customer_id = ${customerId}
    and ${isVisible(sql, visible)}
    ${filters.type === undefined ? sql`` : sql`and j.type = ${filters.type}`}
    ${filters.status === undefined ? sql`` : sql`and j.status = ${filters.status}`}
    and ${isAfter(sql, 'j.id', paginate)}
  order by j.id desc
  ${limitAndOffset(sql, paginate)}`;

/** Defines the order of a job's results, and is part of their cursors. */
const position: Column = { type: 'integer', value: 'position', raw: 'position', required: true };

/**
 * In the order of the job's inputs.
 * @throws DomainError `not_found`, also if it is not visible; `validation_failed` if the cursor
 * belongs to another list
 */
export async function listItems(
  db: Database,
  customerId: string,
  id: string,
  paginate: PageOrCursor = {},
  visible: VisibleJobs,
): Promise<RecordPage<JobItem>> {
  const keyset = { scope: scopeOf(`results of ${id}`, customerId, all([]), []), columns: [position] };
  const after = positionBefore(keyset, paginate)?.values[0] as number | undefined;
  const rows = await db.search(async (sql) => {
    await requireJobView(sql, customerId, id, visible);
    return sql<(JobItem & { position: number })[]>`
      select
        position, item, contact_id, status, reason, charged, coalesce(result -> 'reused' = 'true', false) as reused,
        result, finished_at
      from job_results
      where customer_id = ${customerId}
        and job_id = ${id}
        ${after === undefined ? sql`` : sql`and position > ${after}`}
      order by position
      ${limitAndOffset(sql, paginate)}`;
  });
  const nextCursor = cursorAfter(keyset, paginate, rows, (row) => ({ id: id, values: [row.position] }));
  return { rows, nextCursor };
}

/**
 * Locks a job until the transaction ends, so that workers cannot save results, and returns its status.
 * @throws DomainError `not_found`, also if it is not visible
 */
export async function lockJob(
  sql: Transaction,
  customerId: string,
  id: string,
  visible: VisibleJobs,
): Promise<Locked<{ status: JobStatus }>> {
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

/** Stores `skipped` for every input without a result. */
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

/** Returns how many addresses of a verification ended with each status, most first. */
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

export type OwnedJob = Job & { customer_id: string };

/** Newest first, of all customers or of one, for operators. */
export const listLatestJobs = (
  sql: Sql,
  { customer, status, limit }: { customer: string | undefined; status: JobStatus | undefined; limit: number },
): Promise<OwnedJob[]> => sql<OwnedJob[]>`
  select j.customer_id, ${projection(sql)}
  from jobs j
  where ${customer === undefined ? sql`true` : sql`j.customer_id = ${customer}`}
    ${status === undefined ? sql`` : sql`and j.status = ${status}`}
  order by j.id desc
  limit ${limit}`;
