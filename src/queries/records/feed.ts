import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Database, Queryable, Sql, SharedDatabase } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import type { EventActor, EventSource, EventType } from '../../schemas/events.ts';
import { allCustomers } from '../../access/credentials.ts';

/**
 * A position in a customer's feed: the number and id of the event before it. At the start: 0 and null. Store both,
 * because a restored database gives the numbers of lost events to other events.
 */
export interface FeedPosition {
  position: number;
  id: string | null;
}

/** A position from which events are read. Without an id, it is before the oldest stored event after this number. */
export type ReadPosition = FeedPosition | { position: number };

export const oldest: ReadPosition = { position: 0 };

export interface FeedEvent {
  position: number;
  id: string;
  type: EventType;
  occurred_at: string;
  data: { source: EventSource; actor?: EventActor; id?: string; changed?: string[] } & Record<string, unknown>;
}

export interface FeedPage {
  events: FeedEvent[];
  next: FeedPosition;
  /** True if more events can be read at once. A page can be shorter than `limit`, or empty, although there are more. */
  isMore: boolean;
}

interface FeedRequest {
  after: ReadPosition;
  types?: readonly EventType[] | undefined;
  limit: number;
}

/** Number of feed positions that one statement reads if the reader wants only some types of events. */
const filteredSpan = 10_000;

interface Bounds {
  begins_at: number;
  /** Id of the event at the position `begins_at`. Null: the event is not stored any more, or there is none. */
  id_here: string | null;
  ends_at: number;
  id_at_end: string | null;
  newest_position: number;
}

export interface EventRow {
  position: number;
  id: string;
  occurred_at: string;
  type: EventType;
  source: EventSource;
  actor: EventActor | null;
  change_id: string | null;
  data: Record<string, unknown>;
}

/**
 * Reads events of a customer, in the order of their commits. A reader that continues at `next` gets each event exactly
 * once.
 * @throws DomainError `cursor_expired` if an event after `after` is not stored any more, or the database was restored
 *   to a time before it
 */
export async function readEvents(
  db: Database,
  customerId: string,
  { after, types, limit }: FeedRequest,
): Promise<FeedPage> {
  const { bounds, rows } = await db.lookup((sql) => readPage(sql, customerId, { after, types, limit }));
  if ('id' in after && (bounds.begins_at !== after.position || bounds.id_here !== after.id)) throw expired();
  const events = rows.map(toEvent);
  const last = events.length === limit ? events.at(-1) : undefined;
  const next = last ? { position: last.position, id: last.id } : { position: bounds.ends_at, id: bounds.id_at_end };
  return { events, next, isMore: bounds.newest_position > next.position };
}

// One statement, so that the page, its bounds and the end of the journal are of one snapshot, and no partition is
// truncated in between.
async function readPage(
  sql: Sql,
  customerId: string,
  { after, types, limit }: FeedRequest,
): Promise<{ bounds: Bounds; rows: EventRow[] }> {
  const span = types ? filteredSpan : limit;
  const wanted = types ? [...types] : null;
  const found = await sql<(Bounds & { [Name in keyof EventRow]: EventRow[Name] | null })[]>`
    with kept as materialized (
      select position, id
      from (
        (select position, id from journal_ends where customer_id = ${customerId})
        union all
        (select 0, null)
      ) ends
      order by position desc, id
      limit 1
    ),
    newest as materialized (
      ${newestPlace(sql, customerId)}
    ),
    bounds as materialized (
      select
        greatest(kept.position, ${after.position}::bigint) as begins_at,
        greatest(kept.position, least(newest.position, greatest(kept.position, ${after.position}::bigint) + ${span}))
          as ends_at,
        newest.position as newest_position
      from kept
      cross join newest
    ),
    page as materialized (
      select position, id, occurred_at, type, source, actor, change_id, data
      from journal
      where customer_id = ${customerId}
        and position > (select begins_at from bounds)
        and position <= (select ends_at from bounds)
        and (${wanted}::text[] is null or type = any(${wanted}::text[]))
      order by position
      limit ${limit}
    )
    select
      bounds.*,
      case
        when begins_at = (select position from kept) then (select id from kept)
        else (select id from journal where customer_id = ${customerId} and position = begins_at)
      end as id_here,
      case
        when ends_at = (select position from newest) then (select id from newest)
        when ends_at = (select position from kept) then (select id from kept)
        else (select id from journal where customer_id = ${customerId} and position = ends_at)
      end as id_at_end,
      page.position, page.id, page.occurred_at, page.type, page.source, page.actor, page.change_id, page.data
    from bounds
    left join page on true
    order by page.position`;
  const rows = found.filter((row): row is typeof row & EventRow => row.id !== null);
  return { bounds: found[0]!, rows };
}

export const toEvent = ({ position, id, type, occurred_at, data, source, actor, change_id }: EventRow): FeedEvent => ({
  position,
  id,
  type,
  occurred_at,
  // What was recorded before 1.1.0 has no actor and no change.
  data: { ...data, source, ...(actor && { actor }), ...(change_id !== null && { change_id }) },
});

const expired = (): DomainError =>
  new DomainError(
    'cursor_expired',
    'The event at this cursor is not kept any more. Export all records anew, then follow from a new cursor',
  );

export async function findEnd(db: Database, customerId: string): Promise<FeedPosition> {
  const [end] = await db.lookup((sql) => sql<[FeedPosition]>`${newestPlace(sql, customerId)}`);
  return end;
}

export const newestPlace = (sql: Queryable, customerId: string) => sql`
  select position, id
  from (
    (select position, id from journal where customer_id = ${customerId} order by position desc limit 1)
    union all
    (select position, id from journal_ends where customer_id = ${customerId})
    union all
    (select 0, null)
  ) ends
  order by position desc, id
  limit 1`;

/**
 * Milliseconds by which a search for a time begins earlier or ends later, in case the clock of the database was
 * changed.
 */
const slackMs = 15 * 60_000;

/**
 * Returns a position before all events that happened at a time or later. With `behind`, returns a position after all
 * events that happened before it. Other events can be in between.
 * @param instant RFC 3339
 */
export async function findPositionAt(
  db: Database,
  customerId: string,
  instant: string,
  side: 'before' | 'behind' = 'before',
): Promise<ReadPosition> {
  const wanted = Date.parse(instant) + (side === 'before' ? -slackMs : slackMs);
  // Searches by halves: the journal has no index of times.
  let [low, high] = [0, (await findEnd(db, customerId)).position];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await db.lookup((sql) => findNext(sql, customerId, middle));
    if (row && Date.parse(row.occurred_at) < wanted) low = row.position;
    else high = middle;
  }
  return { position: low };
}

const findNext = (sql: Sql, customerId: string, position: number) => sql<Pick<EventRow, 'position' | 'occurred_at'>[]>`
  select position, occurred_at
  from journal
  where customer_id = ${customerId}
    and position > ${position}
  order by position
  limit 1`;

/**
 * Converts feed positions to signed cursors. Callers can neither make up a cursor nor use a cursor of another customer.
 */
export class FeedCursors {
  readonly #key: Buffer;

  constructor(secret: Buffer) {
    this.#key = createHmac('sha256', secret).update('cursors of the feed of changes').digest();
  }

  encode(customerId: string, { position, id }: FeedPosition): string {
    const place = Buffer.alloc(placeLength);
    place.writeBigUInt64BE(BigInt(position));
    if (id !== null) place.write(id.replaceAll('-', ''), 8, 'hex');
    return Buffer.concat([place, this.#sign(customerId, place)]).toString('base64url');
  }

  decode(customerId: string, cursor: string): FeedPosition | undefined {
    const bytes = Buffer.from(cursor, 'base64url');
    // Several texts can be decoded to the same bytes; one is the cursor.
    if (bytes.length !== placeLength + macLength || bytes.toString('base64url') !== cursor) return undefined;
    const place = bytes.subarray(0, placeLength);
    if (!timingSafeEqual(bytes.subarray(placeLength), this.#sign(customerId, place))) return undefined;
    const position = Number(place.readBigUInt64BE());
    const hex = place.toString('hex', 8);
    return { position, id: position === 0 ? null : hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-') };
  }

  #sign(customerId: string, place: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(customerId).update(place).digest().subarray(0, macLength);
  }
}

const placeLength = 8 + 16;
const macLength = 16;

/**
 * Creates the converter of cursors with the secret of the installation. A dump and restore keeps the secret, so cursors
 * stay valid.
 */
export async function openCursors(db: Database): Promise<FeedCursors> {
  const [state] = await db.lookup(
    (sql) => sql<[{ person_id_secret: Buffer }]>`select person_id_secret from catalog_state`,
  );
  return new FeedCursors(state.person_id_secret);
}

export async function findCustomersWithNewEvents(
  db: Pick<SharedDatabase, 'for'>,
  waiting: ReadonlyMap<string, number>,
): Promise<string[]> {
  const all = db.for({ customerId: allCustomers }, null);
  // One statement for each customer: it reads one entry of the index, whatever the planner knows of the customer.
  const rows = await all.lookup((sql) =>
    Promise.all([...waiting].map(([id, position]) => findNext(sql, id, position))),
  );
  return [...waiting.keys()].filter((_, i) => rows[i]!.length > 0);
}
