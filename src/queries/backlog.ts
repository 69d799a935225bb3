import type { Sql } from '../db.ts';
import type { JobStatus, JobType } from '../schemas/jobs.ts';

/** The work that waits, of all customers: for operators. */
export interface Backlog {
  /** Jobs that have not ended, and the age of the oldest one (seconds). */
  jobs: { type: JobType; status: JobStatus; jobs: number; oldest_seconds: number }[];
  /** Unlocks that the search index does not show yet. */
  unindexed: number;
}

/** Counts the work that waits. Both counts read an index that holds nothing else. */
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
      group by type, status`,
    sql<[{ unindexed: number }]>`
      select count(*) as unindexed
      from unlocks
      where not in_catalog`,
  ]);
  return { jobs, unindexed: unlocks.unindexed };
}

/** Returns false if a job has waited for a minute and no worker process was seen for a minute. */
export async function hasWorkersForJobs(sql: Sql): Promise<boolean> {
  const [row] = await sql<[{ has_workers: boolean }]>`
    select
      exists (
        select
        from worker_places
        where seen_at > now() - interval '1 minute'
      ) or not exists (
        select
        from jobs
        where finished_at is null
          and status = 'PENDING'
          and created_at < now() - interval '1 minute'
      ) as has_workers`;
  return row.has_workers;
}
