import type { Sql } from '../../database/db.ts';
import type { RunType } from '../../database/queues.ts';
import type { JobStatus } from '../../schemas/jobs.ts';

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
  /** False if a run has waited for a minute, and no worker process has been seen for a minute. */
  has_workers: boolean;
  /** False if a job waits for the name server. */
  has_names: boolean;
}

/** A worker process looks after the queues every five seconds. */
const isWorkerAlive = (sql: Sql, seconds: number) => sql`
  exists (
    select 1
    from pgboss.queue
    where greatest(monitor_on, monitor_claim_on) > now() - ${seconds} * interval '1 second'
  )`;

/** True if a worker process was seen in the last seconds. */
export async function hasWorker(sql: Sql, seconds: number): Promise<boolean> {
  const [row] = await sql<[{ alive: boolean }]>`select ${isWorkerAlive(sql, seconds)} as alive`;
  return row.alive;
}

/** Does not look at suspended customers, whose jobs and imports wait until they are resumed. */
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
