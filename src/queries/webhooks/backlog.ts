import type { Database, Sql } from '../../database/db.ts';
import type { FeedPosition } from '../events/feed.ts';
import { eventId } from '../events/positions.ts';
import type { EndpointState } from './endpoints.ts';

/** Events of a feed are counted up to here; one more says that there are more. */
const mostCounted = 10_000;

/** Counts the events of a customer's feed that an endpoint is to get and has not got yet, up to 10,001. */
export async function countWaiting(
  sql: Sql,
  customerId: string,
  { position, types, bulk, inactive_from, gaps }: EndpointState,
): Promise<number> {
  const [row] = await sql<[{ waiting: number }]>`
    select count(*) as waiting
    from (
      select 1
      from events e
      cross join lateral json_array_elements(e.entries) with ordinality as entry (value, number)
      cross join lateral (select e.last_position - e.size + entry.number as position) at
      where e.customer_id = ${customerId}
        and (e.last_position is null or e.last_position > ${position})
        and e.types && ${types as string[]}::text[]
        and entry.value ->> 0 = any(${types as string[]}::text[])
        and (at.position is null or at.position > ${position})
        ${bulk ? sql`` : sql`and (e.source not in ('import', 'job') or entry.value ->> 0 like '%.ended')`}
        ${inactive_from === null ? sql`` : sql`and at.position <= ${inactive_from}`}
        ${gaps.length === 0 ? sql`` : gaps.map(([after, upTo]) => sql`and (at.position is null or at.position <= ${after} or at.position > ${upTo})`)}
      limit ${mostCounted + 1}
    ) few`;
  return row.waiting;
}

/** A row of the feed that has its position. */
interface Placed {
  id: string;
  size: number;
  last_position: number;
  is_before: boolean;
}

/**
 * Positions are given in about the order of time: an event that is recorded late, because its transaction takes long,
 * comes behind later ones. No transaction takes so long.
 */
const disorder = '10 minutes';

/**
 * Returns a place in the feed that is before all events which were recorded since a time, and after most others.
 * @param end end of the feed
 */
export async function findPlaceAt(
  db: Database,
  customerId: string,
  { time, end }: { time: string; end: FeedPosition },
): Promise<FeedPosition> {
  // Searches by halves: the feed has no index of times.
  let [low, high] = [0, end.position];
  let place: FeedPosition = { position: 0, id: null };
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const row = await db.lookup((sql) => findRowAfter(sql, customerId, middle, time));
    if (!row) high = middle;
    else if (row.is_before) {
      low = row.last_position;
      place = { position: row.last_position, id: eventId(row.id, row.size - 1) };
    } else high = Math.min(middle, row.last_position - row.size);
  }
  return place;
}

/** Returns the first row whose last event has a position after `position`. */
async function findRowAfter(sql: Sql, customerId: string, position: number, time: string): Promise<Placed | undefined> {
  const [row] = await sql<Placed[]>`
    select id, size, last_position, occurred_at < ${time}::timestamptz - ${disorder}::interval as is_before
    from events
    where customer_id = ${customerId}
      and last_position > ${position}
    order by last_position
    limit 1`;
  return row;
}
