import type { Database } from '../../database/db.ts';
import { DomainError, unavailable } from '../../errors.ts';
import type { EventSource, EventType } from '../../schemas/events/types.ts';
import { eventId, givePositions, isSameRow, readHead } from './positions.ts';

/**
 * A place in a customer's feed: behind the event with this position and id. At the beginning of a feed the position is 0
 * and the id null. Positions have no gap, but a restored database gives those it lost again, to other events. So whoever
 * stores a place stores both.
 */
export interface FeedPosition {
  position: number;
  id: string | null;
}

/** Without an id: before the oldest event behind this position that is kept. */
export type Place = FeedPosition | { position: number };

/** Before the oldest event that is kept. */
export const oldest: Place = { position: 0 };

/** An event as readers get it, and its place. */
export interface FeedEvent {
  position: number;
  /** A UUID, the same for every reader. */
  id: string;
  type: EventType;
  occurred_at: string;
  data: { source: EventSource; id?: string; changed?: string[] } & Record<string, unknown>;
}

export interface FeedPage {
  /** In the order of their positions. */
  events: FeedEvent[];
  /** Where the reader stands after this page. */
  next: FeedPosition;
  /** Whether more can be read at once. A page can be shorter than asked, even empty, although there is more. */
  isMore: boolean;
}

export interface FeedRequest {
  /** Where the reader stands. */
  after: Place;
  /** Types of events to return. Default: all. */
  types?: readonly EventType[] | undefined;
  /** Maximum number of events. */
  limit: number;
}

/** Maximum number of events in a row. */
const mostOfRow = 1_000;

/** Number of positions that one statement looks at for a reader of some types. It reads only rows with these types. */
const filteredSpan = 10_000;

/**
 * Reads events of a customer. A reader that continues at `next` each time gets each event exactly once, and the events
 * of one record in the order in which they happened. An event can be read as soon as its transaction is committed.
 * Locks nothing, unless committed events wait for their positions.
 * @throws DomainError `cursor_expired` if the event at `after` is not kept any more, or the database was restored to a
 * time before it
 */
export async function readEvents(db: Database, customerId: string, request: FeedRequest): Promise<FeedPage> {
  const after = 'id' in request.after ? request.after : await findStart(db, customerId, request.after.position);
  const page = await readPlaced(db, customerId, { ...request, after });
  if (page.isMore) return page;
  let head = await readHead(db, customerId);
  const room = request.limit - page.events.length;
  if (room === 0 || (!head.isWaiting && head.position <= page.next.position))
    return { ...page, isMore: head.isWaiting || head.position > page.next.position };
  if (head.isWaiting) head = await givePositions(db, customerId);
  const rest = await readPlaced(db, customerId, { ...request, after: page.next, limit: room });
  const hasMore = head.position > rest.next.position;
  if (hasMore && rest.next.position === page.next.position) {
    if (page.events.length === 0) throw expired();
    return { ...page, isMore: true };
  }
  const isMore = rest.isMore || head.isWaiting || hasMore;
  return { events: [...page.events, ...rest.events], next: rest.next, isMore };
}

/** So many rows at the beginning of a feed are searched for a gap. */
const mostBeforeGap = 2_000;

/**
 * Returns the place before the oldest event behind a position that is kept. Transactions at the turn of a partition can
 * get their positions in another order than their times: when the older partition is emptied, a few rows of the younger
 * one stay before the gap. They are not returned to anybody who begins here, because nobody could go on behind them.
 */
async function findStart(db: Database, customerId: string, behind: number): Promise<Place> {
  // Read first: if no event is found, those that get their positions meanwhile are behind this end.
  const end = endOf(await readHead(db, customerId));
  const [start] = await db.lookup(
    (sql) => sql<{ position: number }[]>`
      select position
      from (
        select last_position - size as position, lag(last_position) over (order by last_position) as previous
        from (
          select last_position, size
          from events
          where customer_id = ${customerId}
            and last_position > ${behind}
          order by last_position
          limit ${mostBeforeGap}
        ) first
      ) first
      where previous is distinct from position
      order by position desc
      limit 1`,
  );
  return start ?? end;
}

const endOf = ({ position, last_id }: { position: number; last_id: string | null }): FeedPosition => ({
  position,
  id: last_id,
});

interface Row {
  id: string;
  occurred_at: string;
  source: EventSource;
  size: number;
  last_position: number;
  previous_id: string | null;
  /** Null if none of the row's events has a wanted type. */
  entries: [EventType, Record<string, unknown>][] | null;
}

/** Reads rows that have positions: the one of the event at `from`, and those after it up to `to`. */
const readRows = (
  db: Database,
  customerId: string,
  { from, to, types = null }: { from: number; to: number; types?: readonly EventType[] | null | undefined },
): Promise<Row[]> =>
  db.lookup(
    (sql) => sql<Row[]>`
      select
        id,
        occurred_at,
        source,
        size,
        last_position,
        previous_id,
        case when ${types as string[] | null}::text[] is null or types && ${types as string[] | null} then entries end as entries
      from events
      where customer_id = ${customerId}
        and last_position >= ${from}
        and last_position <= ${to}
      order by last_position`,
  );

/** Reads the next events that have positions. */
async function readPlaced(
  db: Database,
  customerId: string,
  { after, types, limit }: Omit<FeedRequest, 'after'> & { after: Place },
): Promise<FeedPage> {
  const to = after.position + (types ? filteredSpan : limit) + mostOfRow;
  const rows = await readFrom(db, customerId, after, () =>
    readRows(db, customerId, { from: after.position, to, types }),
  );
  const events: FeedEvent[] = [];
  let next = after;
  for (const row of rows) {
    // A part of the feed is not kept any more. Who continues here gets an error.
    if (row.last_position - row.size > next.position) break;
    for (let i = Math.max(0, row.size - (row.last_position - next.position)); i < row.size; i += 1) {
      if (events.length === limit) return { events, next: next as FeedPosition, isMore: true };
      next = { position: row.last_position - row.size + i + 1, id: eventId(row.id, i) };
      const [type, data] = row.entries?.[i] ?? [];
      if (type && (!types || types.includes(type))) events.push(toEvent(row, next, type, data!));
    }
  }
  if (!('id' in next)) throw unavailable('The oldest changes were just removed');
  return { events, next, isMore: false };
}

const toEvent = (
  { occurred_at, source }: Row,
  { position, id }: FeedPosition,
  type: EventType,
  data: Record<string, unknown>,
): FeedEvent => ({ position, id: id!, type, occurred_at, data: { ...data, source } });

/**
 * Reads rows from a place on, and checks that nothing is lost between them: the first has the event at this place, if it
 * is kept.
 * @throws DomainError `cursor_expired`
 */
async function readFrom(
  db: Database,
  customerId: string,
  after: Place,
  read: () => Promise<Row[]>,
): Promise<readonly Row[]> {
  let rows = await read();
  if (!('id' in after)) return rows;
  if (rows.length === 0) {
    if (isEnd(after, await readHead(db, customerId))) return rows;
    // The first events of the feed may have got their positions meanwhile.
    rows = await read();
  }
  if (!rows[0] || !isBehind(after, rows[0])) throw expired();
  return rows;
}

/** True if the row has the event at this place, or is the next one. */
function isBehind({ position, id }: FeedPosition, row: Row): boolean {
  const index = position - (row.last_position - row.size) - 1;
  return index < 0 ? index === -1 && isSameRow(id, row.previous_id) : id === eventId(row.id, index);
}

const isEnd = (place: FeedPosition, head: { position: number; last_id: string | null }): boolean =>
  head.position === place.position && head.last_id === place.id;

const expired = (): DomainError =>
  new DomainError(
    'cursor_expired',
    'The event at this cursor is not kept any more. Export all records anew, then follow from a new cursor',
  );

/** How long a call gives positions to waiting events before it asks the caller to repeat it (ms). */
const catchUpMs = 5_000;

/**
 * Returns the place behind all events that are committed now.
 * @throws DomainError `unavailable` if very many events wait for their positions. They have got some, so a repeated call
 * succeeds
 */
export async function findEnd(db: Database, customerId: string): Promise<FeedPosition> {
  const latest = performance.now() + catchUpMs;
  let head = await readHead(db, customerId);
  while (head.isWaiting) {
    head = await givePositions(db, customerId);
    if (head.isWaiting && performance.now() > latest) throw unavailable('Many changes are being put in order', 1);
  }
  return endOf(head);
}

/** Events are looked for from this long before a given time (ms): those of slow transactions come later than their times say. */
const slackMs = 15 * 60_000;

/**
 * Returns a place before all events that happened at a time or later. Earlier events can follow it, too.
 * @param instant RFC 3339
 */
export async function findPlaceAt(db: Database, customerId: string, instant: string): Promise<Place> {
  const wanted = Date.parse(instant) - slackMs;
  let place = await findStart(db, customerId, 0);
  // Searches by halves: the feed has no index of times.
  let [low, high] = [place.position, (await readHead(db, customerId)).position];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const row = await findRowAfter(db, customerId, middle);
    if (row && Date.parse(row.occurred_at) < wanted) {
      low = row.last_position;
      place = { position: low, id: eventId(row.id, row.size - 1) };
    } else high = row ? Math.min(middle, row.last_position - row.size) : middle;
  }
  return place;
}

/** Returns the first row whose last event has a position after this one. */
async function findRowAfter(db: Database, customerId: string, position: number) {
  const [row] = await db.lookup(
    (sql) => sql<Pick<Row, 'id' | 'size' | 'last_position' | 'occurred_at'>[]>`
      select id, size, last_position, occurred_at
      from events
      where customer_id = ${customerId}
        and last_position > ${position}
      order by last_position
      limit 1`,
  );
  return row;
}
