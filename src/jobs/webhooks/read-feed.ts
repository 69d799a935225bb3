import type { Database } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import type { EndpointRow } from '../../queries/jobs/endpoint-rows.ts';
import { readEvents, type FeedEvent, type FeedPage, type FeedPosition } from '../../queries/events/feed.ts';
import { replayOf, type Round } from '../../queries/webhooks/rounds.ts';
import type { EventType } from '../../schemas/events/types.ts';

/** An event that is to be sent to an endpoint. */
export interface Outgoing {
  position: number;
  event_id: string;
  type: EventType;
  /** What is sent. */
  body: string;
  /** Number of the try, from 1. */
  attempt: number;
}

/** What an endpoint is to get out of the feed next. */
export interface Reading {
  events: Outgoing[];
  /** Neither events nor anything to skip were found. */
  isEmpty: boolean;
  /** Returns where the endpoint stands when so many of the events were tried, from the first on. */
  placesAfter(tried: number): Pick<Round, 'next' | 'replay'>;
}

/** Reads at most `room` new events; if there are fewer, then those of a replay. */
export async function readFeed(db: Database, endpoint: EndpointRow, room: number): Promise<Reading> {
  const place = { position: endpoint.position, id: endpoint.position_id };
  const fresh = await readWanted(db, endpoint, place, room, (event) => !isInGap(endpoint, event));
  const replay = await readReplay(db, endpoint, room - fresh.events.length);
  return {
    events: [...fresh.events, ...(replay?.events ?? [])].map(toOutgoing),
    isEmpty: fresh.next.position === place.position && replay === undefined,
    placesAfter: (tried) => ({
      next: placeAfter(fresh, tried),
      replay: replay?.placeAfter(Math.max(0, tried - fresh.events.length)),
    }),
  };
}

/** A part of the feed, of which only the wanted events are kept. */
interface Part extends FeedPage {
  from: FeedPosition;
}

/** So many events that are not wanted are skipped in one round. */
const mostSkipped = 1_000;

/** Reads up to `limit` wanted events, and on over others, up to the first wanted one. */
async function readWanted(
  db: Database,
  { customer_id: customerId, types, bulk }: EndpointRow,
  from: FeedPosition,
  limit: number,
  isWanted: (event: FeedEvent) => boolean,
): Promise<Part> {
  const read = async (after: FeedPosition, most: number): Promise<Part> => {
    const page = await readKept(db, customerId, { after, types, limit: most });
    const events = page.events.filter((event) => (bulk || !isBulk(event)) && isWanted(event));
    const [last, ...more] = events.slice(limit - 1);
    if (!last || more.length === 0) return { ...page, from, events };
    return { from, events: events.slice(0, limit), next: { position: last.position, id: last.id }, isMore: true };
  };
  if (limit <= 0) return { from, events: [], next: from, isMore: false };
  const first = await read(from, limit);
  return first.events.length === 0 && first.isMore ? read(first.next, mostSkipped) : first;
}

/** Goes on with the oldest events behind the position that are kept, if those directly after it are not. */
async function readKept(
  db: Database,
  customerId: string,
  request: { after: FeedPosition; types: EventType[]; limit: number },
): Promise<FeedPage> {
  try {
    return await readEvents(db, customerId, request);
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== 'cursor_expired') throw error;
    return readEvents(db, customerId, { ...request, after: { position: request.after.position } });
  }
}

/** An import or a job has written the record. That it ended is no such event. */
const isBulk = ({ type, data }: FeedEvent): boolean =>
  (data.source === 'import' || data.source === 'job') && !type.endsWith('.ended');

/** The event was recorded while the endpoint was inactive. */
const isInGap = ({ gaps, inactive_from }: EndpointRow, { position }: FeedEvent): boolean =>
  gaps.some(([after, upTo]) => position > after && position <= upTo) ||
  (inactive_from !== null && position > inactive_from);

/** Returns where the reader of a part stands when so many of its events were tried. */
function placeAfter({ from, events, next }: Part, tried: number): FeedPosition {
  if (tried >= events.length) return next;
  const last = events[tried - 1];
  return last ? { position: last.position, id: last.id } : from;
}

/** Returns undefined if no replay is under way, or nothing of it is to be read now. */
async function readReplay(db: Database, endpoint: EndpointRow, limit: number) {
  const from = replayOf(endpoint);
  if (!from || limit <= 0) return undefined;
  const { first_position: first, replay_end: end } = endpoint;
  const part = await readWanted(db, endpoint, from, limit, ({ position }) => position > first && position <= end!);
  return {
    events: part.events,
    placeAfter: (tried: number): FeedPosition | null => {
      const place = placeAfter(part, tried);
      const isOver = tried >= part.events.length && (place.position >= end! || !part.isMore);
      return isOver ? null : place;
    },
  };
}

const toOutgoing = ({ position, id, type, occurred_at, data }: FeedEvent): Outgoing => ({
  position,
  event_id: id,
  type,
  body: JSON.stringify({ id, type, occurred_at, data }),
  attempt: 1,
});
