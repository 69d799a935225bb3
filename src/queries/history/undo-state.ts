import type { Queryable } from '../../database/db.ts';
import { recordTypes, type EventActor, type EventNoun } from '../../schemas/events.ts';

interface UndoState {
  refusal: string | undefined;
  undo_of: string | undefined;
}

export async function findUndoState(sql: Queryable, customerId: string, id: string, only?: string): Promise<UndoState> {
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
  const stayed = found ? [] : await findStayed(sql, customerId, id, only);
  const [later] = stayed.length === 0 ? [] : await findLaterMerges(sql, customerId, stayed);
  return { undo_of: found?.undo_of ?? undefined, refusal: refusalOf(found) ?? (later && refusalAfter(later)) };
}

interface LaterMerge {
  noun: EventNoun;
  id: string;
  merged_into: string;
  change_id: string;
}

/**
 * Returns the later merges that deleted these records, the latest first. Ignores merges that were undone.
 * @param stayed ids of records that an earlier merge has kept
 */
export const findLaterMerges = (sql: Queryable, customerId: string, stayed: readonly string[]) => sql<LaterMerge[]>`
  select m.noun, m.id, j.data ->> 'merged_into' as merged_into, j.change_id
  from merged_records m
  join journal j
    on j.customer_id = ${customerId}::uuid
    and j.record_id = m.id
    and j.data ->> 'merged_into' is not null
  where m.customer_id = ${customerId}::uuid
    and m.id = any(${stayed as string[]}::uuid[])
  order by j.position desc`;

async function findStayed(sql: Queryable, customerId: string, changeId: string, only: string | undefined) {
  const rows = await sql<{ id: string }[]>`
    select distinct data ->> 'merged_into' as id
    from journal
    where customer_id = ${customerId}::uuid
      and change_id = ${changeId}::uuid
      and (${only ?? null}::uuid is null or record_id = ${only ?? null}::uuid)
      and data ->> 'merged_into' is not null`;
  return rows.map(({ id }) => id);
}

const refusalAfter = ({ noun, id, merged_into, change_id }: LaterMerge): string =>
  `The ${noun} ${id} was merged into ${merged_into} since: undo that change first (${change_id})`;

function refusalOf(found: { has_merges: boolean | null; is_running: boolean } | undefined): string | undefined {
  if (found?.is_running) return 'The job or import has not ended: cancel it, or wait until it has';
  if (found?.has_merges) return 'The undo of a merge cannot be undone: merge the records again';
  return undefined;
}

/** An undo, with what of it stands: its records without those that were taken back again. */
export interface TakenBack {
  id: string;
  undo_of: string;
  actor: EventActor | null;
  /** Null: it has not ended. */
  finished_at: string | null;
  /** Id of the only record that it was asked to take back, or null. */
  only: string | null;
  /** True if it has taken back a merge. It cannot be undone then. */
  has_merges: boolean;
  /** Number of records that it was asked to take back. */
  total: number;
  /** Number of records that it has taken back. With `recordId`: 1 or 0. */
  records: number;
}

/**
 * Returns the undos that are one of these changes, or have taken back one, the latest first.
 * @param recordId counts only what they have done with this record
 */
export async function findTakenBack(sql: Queryable, customerId: string, ids: readonly string[], recordId?: string) {
  // `offset 0` keeps the look-up of the undos of each one. Without it, the planner may read all undos for each.
  const undos = await sql<TakenBack[]>`
    with recursive undos (id) as (
      select id
      from jobs
      where customer_id = ${customerId}::uuid
        and type = 'undo'
        and (id = any(${ids as string[]}::uuid[]) or request ->> 'undo_of' = any(${ids as string[]}::text[]))
      union
      select j.id
      from undos
      cross join lateral (
        select id
        from jobs
        where customer_id = ${customerId}::uuid
          and type = 'undo'
          and request ->> 'undo_of' = undos.id::text
        offset 0
      ) j
    )
    select
      id,
      request ->> 'undo_of' as undo_of,
      actor,
      finished_at,
      request ->> 'only' as only,
      coalesce((request ->> 'has_merges')::boolean, false) as has_merges,
      total,
      ${recordId === undefined ? sql`succeeded` : sql`(${hasWritten(sql, customerId, recordId)})::integer`} as records
    from jobs
    join undos using (id)
    where customer_id = ${customerId}::uuid
    order by id desc`;
  // An undo is later than what it takes back.
  const takenBack = new Map<string, number>();
  return undos.map((one): TakenBack => {
    const records = Math.max(0, one.records - (takenBack.get(one.id) ?? 0));
    takenBack.set(one.undo_of, (takenBack.get(one.undo_of) ?? 0) + records);
    return { ...one, records };
  });
}

const hasWritten = (sql: Queryable, customerId: string, recordId: string) => sql`
  exists (
    select 1
    from journal j
    where j.customer_id = ${customerId}::uuid
      and j.record_id = ${recordId}::uuid
      and j.change_id is not distinct from jobs.id
  )`;

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
