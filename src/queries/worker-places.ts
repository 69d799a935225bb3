import type { Sql, Transaction } from '../db.ts';
import type { JobKind } from '../queues.ts';

/** A slot of a worker process. It runs one job of its kind at a time. */
export interface WorkerPlace {
  kind: JobKind;
  processId: string;
  number: number;
}

/** Seconds between two heartbeats of a worker process. */
export const signSeconds = 5;
/** Seconds without a heartbeat after which the slots of a process no longer count. */
const aliveSeconds = 3 * signSeconds;
/** Seconds without a heartbeat after which the slots of a process are deleted. */
const forgetSeconds = 60;

/** Inserts the slots of a worker process, or renews their heartbeat. */
export async function showPlaces(sql: Sql | Transaction, places: readonly WorkerPlace[]): Promise<void> {
  await sql`
    insert into worker_places (kind, process_id, number, seen_at)
    select place.kind, place.process_id, place.number, clock_timestamp()
    from unnest(
      ${places.map(({ kind }) => kind as string)}::text[],
      ${places.map(({ processId }) => processId)}::uuid[],
      ${places.map(({ number }) => number)}::integer[]
    ) as place (kind, process_id, number)
    order by place.kind, place.process_id, place.number
    on conflict (kind, process_id, number) do update
    set seen_at = excluded.seen_at`;
}

/**
 * Takes a free slot for a customer, if the customer's fair share of all slots of this kind allows it (see `FairSlots`).
 * A customer that holds no slot may take any free slot. A customer that holds slots may take another one if it then
 * holds at most as many slots as remain free.
 * @returns whether the slot was taken
 */
export async function takePlace(sql: Transaction, customerId: string, place: WorkerPlace): Promise<boolean> {
  const { kind, processId, number } = place;
  // Both statements are sent together. The second statement's snapshot is taken after the first has the lock.
  const [, { count }] = await Promise.all([
    sql`select pg_advisory_xact_lock(hashtextextended(${`places:${kind}`}, 0))`,
    sql`
      insert into worker_places (kind, process_id, number, customer_id, seen_at)
      select ${kind}, ${processId}::uuid, ${number}::integer, ${customerId}::uuid, clock_timestamp()
      from (
        select
          count(*) filter (where p.customer_id is null) as free,
          count(*) filter (where p.customer_id = ${customerId}) as held
        from worker_places p
        where p.kind = ${kind}
          and (p.process_id, p.number) <> (${processId}::uuid, ${number}::integer)
          and p.seen_at > clock_timestamp() - ${aliveSeconds} * interval '1 second'
      ) others
      where others.held = 0 or others.held + 1 <= others.free
      on conflict (kind, process_id, number) do update
      set customer_id = excluded.customer_id, seen_at = excluded.seen_at`,
  ]);
  return count === 1;
}

/** Releases a slot that the customer holds. */
export async function givePlace(sql: Sql | Transaction, customerId: string, place: WorkerPlace): Promise<void> {
  await sql`
    update worker_places
    set customer_id = null
    where kind = ${place.kind}
      and process_id = ${place.processId}
      and number = ${place.number}
      and customer_id = ${customerId}`;
}

/** Deletes the slots of a worker process that is shutting down. */
export async function removePlaces(sql: Sql | Transaction, processId: string): Promise<void> {
  await sql`
    delete from worker_places
    where process_id = ${processId}`;
}

/** Deletes the slots of worker processes whose last heartbeat is too old. */
export async function forgetDeadWorkers(sql: Sql | Transaction): Promise<void> {
  await sql`
    delete from worker_places
    where (kind, process_id, number) in (
      select kind, process_id, number
      from worker_places
      where seen_at < clock_timestamp() - ${forgetSeconds} * interval '1 second'
      for update skip locked
    )`;
}
