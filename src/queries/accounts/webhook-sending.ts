import type { PendingQuery, Row } from 'postgres';
import { sendWithCommit, type Queryable, type Sql, type Transaction } from '../../database/db.ts';
import type { EventType } from '../../schemas/events.ts';
import type { DeliveryError, DisablingReason } from '../../schemas/webhooks.ts';
import { newestPlace, toEvent, type EventRow, type FeedPosition } from '../records/feed.ts';
import { needsDelivery, rangeBehind, rangeUpTo, recordDisabled, secretsOf } from './webhook-endpoints.ts';
import type { EndpointAddress } from './webhook-endpoints.ts';

/** Number of failures in a row after which only the endpoint's oldest delivery is tried. */
const stuckAfter = 20;
/** Maximum number of pending deliveries of an endpoint. Further events wait in the feed. */
const maxPending = 1_000;
export const maxAtOnce = { works: 10, other: 1 };
const dispatchSize = 100;
const dispatchSpan = 10_000;
/**
 * Milliseconds after a worker's visit to an endpoint during which no other worker can take it. One delivery takes less
 * time.
 */
const takenMs = 30_000;
/** Milliseconds after which an endpoint is disabled if all its deliveries have failed. */
const maxFailingMs = 5 * 24 * 3_600_000;
const statusGone = 410;

export interface Visitor {
  customerId: string;
  id: string;
  takenBy: string;
}

export interface DueEndpoint {
  customer_id: string;
  id: string;
}

const lastDeliverySucceeded = (sql: Queryable) => sql`(e.failing_since is null and e.last_success_at is not null)`;

/**
 * Finds endpoints of all customers that have events to receive and that no worker has taken. The first endpoint of each
 * customer comes first, then the endpoint that was tried longest ago.
 * @param areWorking true: endpoints whose last delivery succeeded; false: the others
 */
export const findDueEndpoints = (sql: Sql, areWorking: boolean, limit: number): Promise<DueEndpoint[]> => sql`
  select e.customer_id, e.id
  from webhook_endpoints e
  join customers c on c.id = e.customer_id
  left join journal j on j.customer_id = e.customer_id and j.position = lower(e.ahead)
  left join journal_ends k on k.customer_id = e.customer_id and k.position >= lower(e.ahead)
  where e.active
    and c.status = 'OK'
    and ${areWorking ? lastDeliverySucceeded(sql) : sql`not ${lastDeliverySucceeded(sql)}`}
    and (e.taken_until is null or e.taken_until <= (select clock_timestamp()))
    and (
      e.next_at <= now()
      or (
        e.pending < case when e.failures_in_row < ${stuckAfter} then ${maxPending} else 1 end
        and (j.position is not null or k.position is not null)
      )
    )
  order by
    row_number() over (partition by e.customer_id order by ${triedAt(sql)} nulls first, e.id),
    ${triedAt(sql)} nulls first,
    e.id
  limit ${limit}`;

const triedAt = (sql: Queryable) => sql`greatest(e.last_success_at, e.last_failure_at)`;

export interface Due {
  id: string;
  position: number;
  event_id: string;
  type: EventType;
  attempt: number;
  body: string;
}

export interface Attempt extends Due {
  url: string;
  ok: boolean;
  status: number | null;
  error: DeliveryError | null;
  ms: number;
  sent_at: string;
  /** Seconds until the next attempt; null means no further attempt. */
  retry_in: number | null;
}

interface EndpointRow extends EndpointAddress {
  types: EventType[];
  active: boolean;
  is_on: boolean;
  failures_in_row: number;
  failing_since: string | null;
  last_success_at: string | null;
  last_failure_at: string | null;
  given_up: number;
  pending: number;
  begins_at: number | null;
  ends_at: number | null;
  now: string;
}

export interface Visit extends EndpointAddress {
  due: Due[];
  works: boolean;
  hasRead: boolean;
  disabled: DisablingReason | null;
  now: string;
}

/**
 * Stores how attempts ended, creates deliveries for the next events of an endpoint, and returns the deliveries to send
 * now. Only this worker then sends to the endpoint, for 30 seconds or until a visit finds nothing.
 * @param underWay deliveries that the worker is sending
 * @param freeSlots number of deliveries that the worker can send in addition
 * @returns undefined if another worker has the endpoint, or it is deleted
 */
export async function visitEndpoint(
  sql: Transaction,
  visitor: Visitor,
  { ended, underWay, freeSlots }: { ended: readonly Attempt[]; underWay: readonly Due[]; freeSlots: number },
): Promise<Visit | undefined> {
  const before = await lockEndpoint(sql, visitor);
  if (!before) return undefined;
  const endpoint = stateAfter(before, ended);
  const isStuck = endpoint.failures_in_row >= stuckAfter;
  const isWorking = endpoint.failing_since === null && endpoint.last_success_at !== null;
  const room = Math.min(freeSlots, (isWorking ? maxAtOnce.works : maxAtOnce.other) - underWay.length);
  const read = () => readDue(sql, visitor, { isStuck, underWay, limit: room });
  const maySend = endpoint.is_on && room > 0;
  // Sent together.
  const [, , pending] = await Promise.all([
    ended.length > 0 && deletePending(sql, visitor, ended),
    ended.length > 0 && insertAttempts(sql, visitor, before, ended),
    maySend && endpoint.pending > 0 ? read() : [],
  ]);
  const { next, lost } =
    maySend && pending.length < room
      ? await dispatch(sql, visitor, endpoint, { isStuck, underWay })
      : { next: endpoint.begins_at, lost: 0 };
  const hasRead = next !== endpoint.begins_at;
  const due = hasRead ? await read() : pending;
  const truncated = due.filter(({ occurred_at }) => occurred_at === null);
  if (truncated.length > 0) await deletePending(sql, visitor, truncated);
  const known = due.filter(({ occurred_at }) => occurred_at !== null);
  const { url, secrets, now, disabled } = endpoint;
  if (disabled) await recordDisabled(sql, visitor.customerId, { id: visitor.id, url }, disabled);
  const [end] = disabled ? await sql<[FeedPosition]>`${newestPlace(sql, visitor.customerId)}` : [];
  sendWithCommit(sql, () => [
    updateEndpoint(sql, visitor, {
      ...endpoint,
      given_up: endpoint.given_up + lost + truncated.length,
      next,
      end: end?.position,
      isBusy: underWay.length + known.length > 0,
    }),
  ]);
  return { due: known.map(toDue), works: isWorking, hasRead, url, secrets, now, disabled };
}

async function lockEndpoint(sql: Transaction, { customerId, id, takenBy }: Visitor): Promise<EndpointRow | undefined> {
  const [row] = await sql<EndpointRow[]>`
    select
      e.url, e.types, e.active, e.failures_in_row, e.failing_since, e.last_success_at, e.last_failure_at,
      e.given_up, e.pending,
      e.active and c.status = 'OK' as is_on,
      ${secretsOf(sql)} as secrets,
      lower(e.ahead) as begins_at,
      (select min(upper(part)) from unnest(e.ahead) as part) as ends_at,
      (select clock_timestamp()) as now
    from webhook_endpoints e
    join customers c on c.id = e.customer_id
    where e.customer_id = ${customerId}
      and e.id = ${id}
      and (e.taken_by = ${takenBy} or e.taken_until is null or e.taken_until <= (select clock_timestamp()))
    for no key update of e`;
  return row;
}

interface After extends EndpointRow {
  disabled: DisablingReason | null;
}

const isCurrent = (endpoint: EndpointRow, { url }: Attempt): boolean => url === endpoint.url;

function stateAfter(endpoint: EndpointRow, ended: readonly Attempt[]): After {
  const counted = ended.filter((one) => isCurrent(endpoint, one));
  const sinceSuccess = counted.slice(counted.findLastIndex(({ ok }) => ok) + 1);
  const hasSucceeded = sinceSuccess.length < counted.length;
  const disabled = endpoint.active ? reasonToDisable(endpoint, counted) : null;
  return {
    ...endpoint,
    failures_in_row: sinceSuccess.length + (hasSucceeded ? 0 : endpoint.failures_in_row),
    failing_since: (hasSucceeded ? null : endpoint.failing_since) ?? sinceSuccess[0]?.sent_at ?? null,
    last_success_at: counted.findLast(({ ok }) => ok)?.sent_at ?? endpoint.last_success_at,
    last_failure_at: counted.findLast(({ ok }) => !ok)?.sent_at ?? endpoint.last_failure_at,
    given_up: endpoint.given_up + counted.filter(({ ok, retry_in }) => !ok && retry_in === null).length,
    active: endpoint.active && !disabled,
    is_on: endpoint.is_on && !disabled,
    disabled,
  };
}

function reasonToDisable({ failing_since, now }: EndpointRow, attempts: readonly Attempt[]): DisablingReason | null {
  if (attempts.some(({ status }) => status === statusGone)) return 'gone';
  const hasOnlyFailed = attempts.length > 0 && attempts.every(({ ok }) => !ok) && failing_since !== null;
  return hasOnlyFailed && Date.parse(now) - Date.parse(failing_since) >= maxFailingMs ? 'failing' : null;
}

async function deletePending(sql: Transaction, { customerId, id }: Visitor, deliveries: readonly { id: string }[]) {
  await sql`
    delete from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${id}
      and id = any(${deliveries.map((one) => one.id)}::uuid[])`;
}

async function insertAttempts(
  sql: Transaction,
  { customerId, id }: Visitor,
  endpoint: EndpointRow,
  ended: readonly Attempt[],
): Promise<void> {
  const rows = ended.flatMap((one) => {
    const { position, event_id, type, attempt, ok, status, error, ms, sent_at } = one;
    // What a replaced URL has refused is due at once.
    const retry_in = ok || isCurrent(endpoint, one) ? one.retry_in : 0;
    const isOver = retry_in === null || !endpoint.types.includes(type);
    const next = { position, event_id, type, attempt: attempt + 1, due_in: retry_in };
    return [{ position, event_id, type, attempt, ok, status, error, ms, sent_at, retry_in }, ...(isOver ? [] : [next])];
  });
  await sql`
    insert into webhook_deliveries (
      customer_id, endpoint_id, position, event_id, type, attempt, ok, status, error, ms, sent_at, next_attempt_at, due_at
    )
    select
      ${customerId}, ${id}, a.position, a.event_id, a.type, a.attempt, a.ok, a.status, a.error, a.ms, a.sent_at,
      now() + a.retry_in * interval '1 second', now() + a.due_in * interval '1 second'
    from jsonb_to_recordset(${sql.json(rows)}) as a (
      position bigint, event_id uuid, type text, attempt smallint, ok boolean, status smallint, error text, ms integer,
      sent_at timestamptz, retry_in integer, due_in integer
    )
    on conflict (customer_id, endpoint_id, position) where due_at is not null do nothing`;
}

/** A due delivery with its event. `occurred_at` is null if the journal no longer has the event. */
type DueRow = Omit<Due, 'body'> &
  Pick<EventRow, 'source' | 'actor' | 'change_id' | 'data'> & { occurred_at: string | null };

const toDue = ({ id, position, event_id, type, attempt, ...event }: DueRow): Due => {
  const { occurred_at, data } = toEvent({ ...event, position, type, id: event_id } as EventRow);
  return { id, position, event_id, type, attempt, body: JSON.stringify({ id: event_id, type, occurred_at, data }) };
};

const readDue = (
  sql: Transaction,
  { customerId, id }: Visitor,
  { isStuck, underWay, limit }: { isStuck: boolean; underWay: readonly Due[]; limit: number },
): Promise<DueRow[]> => sql`
  select
    d.id, d.position, d.event_id, d.type, d.attempt, j.occurred_at, j.source, j.actor, j.change_id, j.data
  from (
    select id, position, event_id, type, attempt, due_at
    from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${id}
      and due_at is not null
      ${isStuck ? sql`` : sql`and due_at <= now() and id <> all(${underWay.map((one) => one.id)}::uuid[])`}
    order by position
    limit ${isStuck ? 1 : limit}
  ) d
  left join journal j on j.customer_id = ${customerId} and j.position = d.position and j.id = d.event_id
  where d.due_at <= now()
  order by d.position`;

async function dispatch(
  sql: Transaction,
  visitor: Visitor,
  endpoint: EndpointRow,
  { isStuck, underWay }: { isStuck: boolean; underWay: readonly Due[] },
): Promise<{ next: number | null; lost: number }> {
  const { begins_at: beginsAt, ends_at: endsAt } = endpoint;
  const room = Math.min(dispatchSize, (isStuck ? 1 : maxPending) - endpoint.pending);
  if (beginsAt === null || room <= 0) return { next: beginsAt, lost: 0 };
  const { customerId } = visitor;
  const [feed] = await sql<[{ newest: number; truncated: number }]>`
    select
      newest.position as newest,
      coalesce((select position from journal_ends where customer_id = ${customerId}), 0) as truncated
    from (${newestPlace(sql, customerId)}) newest`;
  const end = Math.min(endsAt ?? Infinity, feed.newest + 1);
  const begin = Math.max(beginsAt, Math.min(feed.truncated + 1, end));
  // A replay sends again what is under way: once that has ended.
  const sent = underWay.filter(({ position }) => position >= begin).map(({ position }) => position);
  const stop = Math.min(end, begin + dispatchSpan, ...sent);
  const last = begin < stop ? await makeDeliveries(sql, visitor, { begin, stop, limit: room }) : undefined;
  return { next: last === undefined ? Math.max(begin, stop) : last + 1, lost: begin - beginsAt };
}

/**
 * Reads a part of the feed, and creates deliveries for the events that the endpoint wants. An event that already has a
 * waiting delivery becomes due at once.
 * @returns the position of the last delivery if there are `limit` events, because more can follow
 */
async function makeDeliveries(
  sql: Transaction,
  { customerId, id }: Visitor,
  { begin, stop, limit }: { begin: number; stop: number; limit: number },
): Promise<number | undefined> {
  const events = await sql<Pick<EventRow, 'position' | 'id' | 'type' | 'occurred_at'>[]>`
    select j.position, j.id, j.type, j.occurred_at
    from journal j
    join webhook_endpoints e on e.customer_id = j.customer_id
    where j.customer_id = ${customerId}
      and j.position >= ${begin}
      and j.position < ${stop}
      and e.customer_id = ${customerId}
      and e.id = ${id}
      and ${needsDelivery(sql)}
    order by j.position
    limit ${limit}`;
  if (events.length > 0)
    await sql`
      insert into webhook_deliveries (customer_id, endpoint_id, position, event_id, type, attempt, due_at)
      select ${customerId}, ${id}, n.position, n.id, n.type, 1, n.occurred_at
      from jsonb_to_recordset(${sql.json(events)}) as n (position bigint, id uuid, type text, occurred_at timestamptz)
      order by n.position
      on conflict (customer_id, endpoint_id, position) where due_at is not null
      do update set due_at = least(webhook_deliveries.due_at, excluded.due_at)`;
  return events.length === limit ? events.at(-1)!.position : undefined;
}

interface Change extends After {
  next: number | null;
  /** Last position of the feed. Set only if the endpoint is being disabled. */
  end: number | undefined;
  isBusy: boolean;
}

function updateEndpoint(
  sql: Transaction,
  { customerId, id, takenBy }: Visitor,
  { next, end, isBusy, disabled, ...endpoint }: Change,
): PendingQuery<Row[]> {
  const passed = endpoint.begins_at === null ? sql`` : sql`- ${rangeBehind(sql, endpoint.begins_at - 1, next! - 1)}`;
  const takenUntil = isBusy ? new Date(Date.parse(endpoint.now) + takenMs).toISOString() : null;
  return sql`
    update webhook_endpoints
    set
      ahead = (ahead ${passed}) ${end === undefined ? sql`` : sql`* ${rangeUpTo(sql, end)}`},
      failures_in_row = ${endpoint.failures_in_row},
      failing_since = ${endpoint.failing_since}::timestamptz,
      last_success_at = ${endpoint.last_success_at}::timestamptz,
      last_failure_at = ${endpoint.last_failure_at}::timestamptz,
      given_up = ${endpoint.given_up},
      active = ${endpoint.active},
      disabled_reason = coalesce(${disabled}, disabled_reason),
      pending = rest.pending,
      next_at = case when ${endpoint.failures_in_row >= stuckAfter} then rest.oldest_due else rest.first_due end,
      taken_by = ${isBusy ? takenBy : null},
      taken_until = ${takenUntil}::timestamptz
    from (
      select count(*)::integer as pending, min(due_at) as first_due, min(case when is_oldest then due_at end) as oldest_due
      from (
        select due_at, row_number() over (order by position) = 1 as is_oldest
        from webhook_deliveries
        where customer_id = ${customerId}
          and endpoint_id = ${id}
          and due_at is not null
      ) pending
    ) rest
    where customer_id = ${customerId}
      and id = ${id}`;
}
