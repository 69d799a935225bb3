import type { Queryable, Transaction } from '../../database/db.ts';
import { aliveSeconds, type JobKind } from '../../database/queues.ts';

/** A process has several slots, and runs one job of the given kind at a time in each. */
export interface WorkerSlot {
  kind: JobKind;
  processId: string;
  number: number;
}

/** Time without a heartbeat after which the slots of a process are deleted (seconds). */
const deleteAfterSeconds = 60;

export async function registerWorkerSlots(sql: Queryable, slots: readonly WorkerSlot[]): Promise<void> {
  await sql`
    insert into worker_slots (kind, process_id, number, seen_at)
    select slot.kind, slot.process_id, slot.number, clock_timestamp()
    from unnest(
      ${slots.map(({ kind }) => kind as string)}::text[],
      ${slots.map(({ processId }) => processId)}::uuid[],
      ${slots.map(({ number }) => number)}::integer[]
    ) as slot (kind, process_id, number)
    order by slot.kind, slot.process_id, slot.number
    on conflict (kind, process_id, number) do update
    set seen_at = excluded.seen_at`;
}

/**
 * Reserves a free slot. A customer without slots can take any; one with slots only if as many stay free as the customer
 * then has.
 * @returns true if the slot was reserved
 */
export async function takeWorkerSlot(sql: Transaction, customerId: string, slot: WorkerSlot): Promise<boolean> {
  const { kind, processId, number } = slot;
  // Both statements are sent together. The second statement's snapshot is taken after the first has the lock.
  const [, { count }] = await Promise.all([
    sql`select pg_advisory_xact_lock(hashtextextended(${`worker-slots:${kind}`}, 0))`,
    sql`
      insert into worker_slots (kind, process_id, number, customer_id, seen_at)
      select ${kind}, ${processId}::uuid, ${number}::integer, ${customerId}::uuid, clock_timestamp()
      from (
        select
          count(*) filter (where p.customer_id is null) as free,
          count(*) filter (where p.customer_id = ${customerId}) as held
        from worker_slots p
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

export async function releaseWorkerSlot(sql: Queryable, customerId: string, slot: WorkerSlot): Promise<void> {
  await sql`
    update worker_slots
    set customer_id = null
    where kind = ${slot.kind}
      and process_id = ${slot.processId}
      and number = ${slot.number}
      and customer_id = ${customerId}`;
}

export async function deleteWorkerSlots(sql: Queryable, processId: string): Promise<void> {
  await sql`
    delete from worker_slots
    where process_id = ${processId}`;
}

export async function deleteDeadWorkerSlots(sql: Queryable): Promise<void> {
  await sql`
    delete from worker_slots
    where (kind, process_id, number) in (
      select kind, process_id, number
      from worker_slots
      where seen_at < clock_timestamp() - ${deleteAfterSeconds} * interval '1 second'
      for update skip locked
    )`;
}
