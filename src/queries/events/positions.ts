import type { Database, Transaction } from '../../database/db.ts';

/** Maximum number of rows that get their positions in one transaction. */
const mostRows = 1_000;

/** The end of a customer's feed. */
export interface Head {
  /** The highest position given; 0: none. */
  position: number;
  /** Id of the event at this position. */
  last_id: string | null;
}

/** The id of an event in a row: the row's id with the event's index in its last ten bits. */
export function eventId(rowId: string, index: number): string {
  const last = (Number.parseInt(rowId.slice(-3), 16) & ~0x3ff) | index;
  return rowId.slice(0, -3) + last.toString(16).padStart(3, '0');
}

/** Returns true if two ids are of events of the same row, or are the id of this row. */
export const isSameRow = (one: string | null, other: string | null): boolean =>
  one === other || (one !== null && other !== null && eventId(one, 0) === eventId(other, 0));

/*
 * A row that is committed late has a number below those of other rows. So rows without a position are looked for from
 * `settled` on: the highest number that had its position ten minutes ago. Once an hour they are looked for everywhere.
 * Without this limit, each search would visit all index entries of rows that got their positions since the oldest
 * running transaction (such as a dump) began, because vacuum cannot remove these entries.
 */
const lookBack = '10 minutes';
const sweepEvery = '1 hour';

/** `look_from`: rows with higher numbers may wait for their positions. */
interface StoredHead extends Head {
  look_from: number;
}

/**
 * Returns the end of the customer's feed, and whether committed events still wait for their positions. Both are read in one
 * statement. With two, another reader could give positions between them: the first would miss the new end, and the second
 * would find nothing that waits.
 */
export const readHead = (db: Database, customerId: string): Promise<Head & { isWaiting: boolean }> =>
  db.lookup(async (sql) => {
    const [head] = await sql<(Head & { is_waiting: boolean })[]>`
      select
        position,
        last_id,
        exists (
          select 1
          from events
          where customer_id = ${customerId}
            and last_position is null
            and number > h.settled * (h.swept_at >= now() - ${sweepEvery}::interval)::int
        ) as is_waiting
      from event_heads h
      where customer_id = ${customerId}`;
    // Nobody has read this feed yet.
    if (!head) return { position: 0, last_id: null, isWaiting: true };
    const { position, last_id, is_waiting } = head;
    return { position, last_id, isWaiting: is_waiting };
  });

/** The last of the rows that got their positions in one transaction, and the number of these rows (`rows`). */
interface Given {
  rows: number;
  last_position: number;
  id: string;
  size: number;
  number: number;
}

/**
 * Gives positions to committed events that have none: to at most 1,000 rows, in the order of their numbers. Only here
 * an event gets its position, under the lock of the customer's head. So no event appears before a position that is known
 * already, however late its transaction commits.
 * @returns the end of the feed, and whether more rows may be waiting
 */
export const givePositions = (db: Database, customerId: string): Promise<Head & { isWaiting: boolean }> =>
  db.transaction(async (sql) => {
    const head = await lockHead(sql, customerId);
    const given = await givePositionsFrom(sql, customerId, head);
    const isWaiting = given?.rows === mostRows;
    return { ...(await moveHead(sql, customerId, head, given, isWaiting)), isWaiting };
  });

// Not one statement with the lock: its snapshot is taken when the lock is held, so it sees the positions that others
// gave before. The update joins one row of arrays, not a row for each event: for a new customer, or in a partition that
// was just emptied, the planner expects few events, and would compare each kept one with each waiting one. The elements
// are read in subqueries, because an element of a joined array as the new value crashes Citus 14.0.1.
async function givePositionsFrom(
  sql: Transaction,
  customerId: string,
  { position, last_id, look_from }: StoredHead,
): Promise<Given | undefined> {
  const [given] = await sql<Given[]>`
    with waiting as (
      select number, id, size
      from events
      where customer_id = ${customerId}
        and last_position is null
        and number > ${look_from}
      order by number
      limit ${mostRows}
    ),
    placed as (
      select
        number,
        ${position}::bigint + sum(size) over (order by number) as last_position,
        coalesce(lag(id) over (order by number), ${last_id}::uuid) as previous_id
      from waiting
    ),
    places as (
      select
        array_agg(number order by number) as numbers,
        array_agg(last_position order by number) as positions,
        array_agg(previous_id order by number) as previous_ids,
        min(number) as first_number,
        max(number) as last_number
      from placed
    ),
    given as (
      update events e
      set
        last_position = (select positions[width_bucket(e.number, numbers)] from places),
        previous_id = (select previous_ids[width_bucket(e.number, numbers)] from places)
      from places
      where e.customer_id = ${customerId}
        and e.last_position is null
        and e.number between first_number and last_number
      returning e.number, e.id, e.size, e.last_position
    )
    select count(*) over () as rows, last_position, id, size, number
    from given
    order by last_position desc
    limit 1`;
  return given;
}

async function lockHead(sql: Transaction, customerId: string): Promise<StoredHead> {
  const lock = () => sql<(Head & { settled: number; is_due: boolean })[]>`
    select position, last_id, settled, swept_at < now() - ${sweepEvery}::interval as is_due
    from event_heads
    where customer_id = ${customerId}
    for update`;
  let [head] = await lock();
  if (!head) {
    await sql`
      insert into event_heads (customer_id)
      values (${customerId})
      on conflict (customer_id) do nothing`;
    [head] = await lock();
  }
  const { position, last_id, settled, is_due } = head!;
  return { position, last_id, look_from: is_due ? 0 : settled };
}

/** Saves the new end of the feed. A search for rows with any number is done when it leaves none waiting. */
async function moveHead(
  sql: Transaction,
  customerId: string,
  head: StoredHead,
  given: Given | undefined,
  isWaiting: boolean,
): Promise<Head> {
  const { position, last_id } = given
    ? { position: given.last_position, last_id: eventId(given.id, given.size - 1) }
    : head;
  const isSwept = head.look_from === 0 && !isWaiting;
  const isOld = sql`candidate_at < clock.before`;
  if (given || isSwept)
    // Citus takes neither the clock nor a sum with an interval within `case`.
    await sql`
      with clock as materialized (
        select now() as now, now() - ${lookBack}::interval as before
      )
      update event_heads
      set
        position = ${position},
        last_id = ${last_id},
        settled = case when ${isOld} then candidate else settled end,
        candidate = case when ${isOld} then greatest(candidate, ${given?.number ?? 0}) else candidate end,
        candidate_at = case when ${isOld} then clock.now else candidate_at end,
        swept_at = case when ${isSwept} then clock.now else swept_at end
      from clock
      where customer_id = ${customerId}`;
  return { position, last_id };
}
