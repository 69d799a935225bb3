import type { Sql } from '../../database/db.ts';
import type { RunType } from '../../database/queues.ts';
import type { JobStatus } from '../../schemas/jobs.ts';
import { isWaiting } from './endpoint-rows.ts';

export interface Backlog {
  /**
   * By type and status: how many, and the age of the oldest (seconds). An import counts once its file is completely
   * uploaded.
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
        extract(epoch from now() - min(served_at))::float8
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
  /** False if a run has waited for a minute, and no worker process has sent a heartbeat for a minute. */
  has_workers: boolean;
  /** False if a job waits for the name server. */
  has_names: boolean;
}

/** Does not look at suspended customers, whose jobs and imports wait until they are resumed. */
export async function readJobHealth(sql: Sql): Promise<JobHealth> {
  const [row] = await sql<[JobHealth]>`
    select
      exists (
        select 1
        from worker_slots
        where seen_at > now() - interval '1 minute'
      ) or not exists (
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
          and i.served_at < now() - interval '1 minute'
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

/** What endpoints that are active have not got yet. */
export interface WebhookBacklog {
  /** Whether the last delivery failed. */
  standing: 'working' | 'failing';
  /** Events set aside, and those in the feed that the endpoints are to get, among the next 1,000. */
  waiting: number;
  /** Age of the oldest of them (seconds); of a failing endpoint, at least since when it fails. Null: there is none. */
  oldest_seconds: number | null;
}

export const readWebhookBacklog = (sql: Sql): Promise<WebhookBacklog[]> =>
  sql<WebhookBacklog[]>`
    with endpoints as (
      select
        e.customer_id,
        e.id,
        e.failing_since,
        e.set_aside + count(j.position) as waiting,
        least(min(j.occurred_at), e.failing_since) as since
      from webhook_endpoints e
      join customers c on c.id = e.customer_id
      left join journal j
        on j.customer_id = e.customer_id
        and j.position <= e.position + ${mostLookedAt}
        and ${isWaiting(sql)}
      where e.active
        and c.status = 'OK'
      group by e.customer_id, e.id
    )
    select
      case when failing_since is null then 'working' else 'failing' end as standing,
      sum(waiting)::bigint as waiting,
      extract(epoch from now() - min(since))::float8 as oldest_seconds
    from endpoints
    group by 1`;

/** So many positions behind that of an endpoint are looked at. */
const mostLookedAt = 1_000;
