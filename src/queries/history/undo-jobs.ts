import type { Queryable } from '../../database/db.ts';
import { recordTypes } from '../../schemas/events/types.ts';

/** Returns true if this is the id of a job or import that has not ended. */
export async function findUnfinished(sql: Queryable, customerId: string, id: string): Promise<boolean> {
  const rows = await sql`
    select 1
    from jobs
    where customer_id = ${customerId}::uuid
      and id = ${id}::uuid
      and finished_at is null
    union all
    select 1
    from imports
    where customer_id = ${customerId}::uuid
      and id = ${id}::uuid
      and finished_at is null`;
  return rows.length > 0;
}

/** Returns what a job of the type `undo` takes back. */
export async function findUndoneChange(
  sql: Queryable,
  customerId: string,
  jobId: string,
): Promise<{ undo_of: string; has_merges: boolean } | undefined> {
  const [job] = await sql<{ undo_of: string; has_merges: boolean }[]>`
    select request ->> 'undo_of' as undo_of, (request ->> 'has_merges')::boolean as has_merges
    from jobs
    where customer_id = ${customerId}::uuid
      and id = ${jobId}::uuid
      and type = 'undo'`;
  return job;
}

/** Returns the jobs that take a change back, the oldest first. */
export async function findUndos(sql: Queryable, customerId: string, changeId: string): Promise<string[]> {
  const jobs = await sql<{ id: string }[]>`
    select id
    from jobs
    where customer_id = ${customerId}::uuid
      and type = 'undo'
      and request ->> 'undo_of' = ${changeId}
    order by id`;
  return jobs.map(({ id }) => id);
}

/** Returns true if a job or import has changed records, and that can be taken back. */
export async function isUndoable(sql: Queryable, customerId: string, id: string): Promise<boolean> {
  const [row] = await sql`
    select 1
    from journal
    where customer_id = ${customerId}::uuid
      and change_id = ${id}::uuid
      and type = any(${recordTypes}::text[])
    limit 1`;
  if (!row || (await findUnfinished(sql, customerId, id))) return false;
  return !(await findUndoneChange(sql, customerId, id))?.has_merges;
}
