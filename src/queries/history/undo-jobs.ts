import type { Queryable } from '../../database/db.ts';
import { recordTypes } from '../../schemas/events/types.ts';

/** Whether a change of records can be undone. */
export interface UndoState {
  /** Why not. Undefined: it can. */
  refusal: string | undefined;
  /** The change that it has taken back. Undefined: it is no undo. */
  undo_of: string | undefined;
}

/** Returns whether a call, job or import that has changed records can be undone. */
export async function findUndoState(sql: Queryable, customerId: string, id: string): Promise<UndoState> {
  const [found] = await sql<{ undo_of: string | null; has_merges: boolean | null; is_running: boolean }[]>`
    select
      request ->> 'undo_of' as undo_of,
      (request ->> 'has_merges')::boolean as has_merges,
      finished_at is null as is_running
    from jobs
    where customer_id = ${customerId}::uuid
      and id = ${id}::uuid
    union all
    select null, null, finished_at is null
    from imports
    where customer_id = ${customerId}::uuid
      and id = ${id}::uuid`;
  return { undo_of: found?.undo_of ?? undefined, refusal: refusalOf(found) };
}

function refusalOf(found: { has_merges: boolean | null; is_running: boolean } | undefined): string | undefined {
  if (found?.is_running) return 'The job or import has not ended: cancel it, or wait until it has';
  if (found?.has_merges) return 'The undo of a merge cannot be undone: merge the records again';
  return undefined;
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

/** Returns true if a job or import has changed records, and that can be undone. */
export async function isUndoable(sql: Queryable, customerId: string, id: string): Promise<boolean> {
  const [row] = await sql`
    select 1
    from journal
    where customer_id = ${customerId}::uuid
      and change_id = ${id}::uuid
      and type = any(${recordTypes}::text[])
    limit 1`;
  return row !== undefined && (await findUndoState(sql, customerId, id)).refusal === undefined;
}
