import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { conflict, notFound } from '../../errors.ts';
import type { Actor, AuditEventName } from '../../schemas/accounts.ts';
import * as webhooks from '../../schemas/webhooks.ts';
import { recordEvent } from './customers.ts';
import { newestPlace, type FeedPosition } from '../records/feed.ts';
import { highestId } from '../../database/connection.ts';
import { isAfter, limitAndOffset, type PageById } from '../records/finders.ts';

const settingsColumns = (sql: Queryable) => sql`
  e.id, e.url, e.types, e.bulk, e.description, e.active, e.created_at`;

/**
 * Returns the SQL condition that the endpoint `e` still needs a delivery of the journal event `j`: it wants the event,
 * and no delivery was created yet.
 */
export const needsDelivery = (sql: Queryable) => sql`
  e.ahead @> j.position
  and ${isWanted(sql)}`;

const isWanted = (sql: Queryable) => sql`
  (j.type = any(e.types) and (e.bulk or j.source not in ('import', 'job') or j.type like '%.ended'))`;

interface EndpointState extends Omit<webhooks.Endpoint, 'waiting'> {
  pending: number;
  /** First feed position for which a delivery must still be created. Null: there is none. */
  begins_at: number | null;
  /** Feed position at which the creation of deliveries ends (exclusive). Null: it has no end. */
  ends_at: number | null;
}

export const listEndpoints = (sql: Queryable, customerId: string, only?: string): Promise<EndpointState[]> => sql`
  select
    ${settingsColumns(sql)}, e.disabled_reason, e.last_success_at, e.last_failure_at, e.failing_since, e.given_up,
    e.pending, lower(e.ahead) as begins_at, upper(e.ahead) as ends_at
  from webhook_endpoints e
  where e.customer_id = ${customerId}
    ${only === undefined ? sql`` : sql`and e.id = ${only}`}
  order by e.id desc`;

const maxCounted = 10_000;

/** Counts the events that an endpoint has not received yet. Stops at 10,001. */
export async function countWaiting(
  sql: Sql,
  customerId: string,
  { id, types, pending, begins_at: beginsAt, ends_at: endsAt }: EndpointState,
): Promise<number> {
  if (beginsAt === null) return pending;
  const [row] = await sql<[{ waiting: number }]>`
    select count(*) as waiting
    from (
      select 1
      from journal j
      join webhook_endpoints e on e.customer_id = j.customer_id
      where j.customer_id = ${customerId}
        and j.position >= ${beginsAt}
        ${endsAt === null ? sql`` : sql`and j.position < ${endsAt}`}
        and j.type = any(${types as string[]}::text[])
        and e.customer_id = ${customerId}
        and e.id = ${id}
        and ${needsDelivery(sql)}
      limit ${maxCounted + 1}
    ) few`;
  return Math.min(pending + row.waiting, maxCounted + 1);
}

export async function requireEndpoint(sql: Queryable, customerId: string, id: string): Promise<EndpointState> {
  const [endpoint] = await listEndpoints(sql, customerId, id);
  if (!endpoint) throw notFound('webhook endpoint');
  return endpoint;
}

interface NewEndpoint {
  url: string;
  types: string[];
  bulk: boolean;
  description: string;
  secret: Buffer;
  /** Last position of the feed. The endpoint gets only events after it. */
  end: number;
  apiKeyId: string | null;
}

export async function createEndpoint(sql: Transaction, customerId: string, given: NewEndpoint, by: Actor) {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`webhooks:${customerId}`}, 0))`;
  const [{ count }] = await sql<[{ count: number }]>`
    select count(*) as count
    from webhook_endpoints
    where customer_id = ${customerId}`;
  if (count >= webhooks.maxEndpoints)
    throw conflict(`A customer can have at most ${webhooks.maxEndpoints} webhook endpoints`);
  const [row] = await sql<[webhooks.EndpointSettings]>`
    insert into webhook_endpoints as e (
      customer_id, url, types, bulk, description, secret, first_position, ahead, api_key_id
    )
    values (
      ${customerId}, ${given.url}, ${given.types}::text[], ${given.bulk}, ${given.description}, ${given.secret},
      ${given.end}, ${rangeBehind(sql, given.end)}, ${given.apiKeyId}
    )
    returning ${settingsColumns(sql)}`;
  await record(sql, 'webhook.created', customerId, row, by);
  return row;
}

/** Returns SQL for a multirange of feed positions: those after `after`, up to `end`. Null: without an end. */
export const rangeBehind = (sql: Queryable, after: number, end: number | null = null) => sql`
  int8multirange(int8range(${after}::bigint + 1, ${end}::bigint + 1))`;

export const rangeUpTo = (sql: Queryable, end: number) => sql`int8multirange(int8range(null, ${end}::bigint + 1))`;

/**
 * Changes an endpoint. After an activation or for a new URL, waiting deliveries are sent at once. Deliveries of events
 * that the endpoint no longer wants are deleted.
 * @param end last position of the feed. A deactivated endpoint gets no later events
 * @throws DomainError `not_found`
 */
export async function changeEndpoint(
  sql: Transaction,
  customerId: string,
  id: string,
  { change, end, apiKeyId }: { change: webhooks.EndpointChange; end: number; apiKeyId: string | null },
  by: Actor,
): Promise<webhooks.EndpointSettings> {
  const [before] = await sql<{ url: string; active: boolean }[]>`
    select url, active
    from webhook_endpoints
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  if (!before) throw notFound('webhook endpoint');
  const active = change.active ?? before.active;
  const isFresh = (active && !before.active) || (change.url ?? before.url) !== before.url;
  const ahead =
    active === before.active
      ? sql`ahead`
      : active
        ? sql`ahead + ${rangeBehind(sql, end)}`
        : sql`ahead * ${rangeUpTo(sql, end)}`;
  const [row] = await sql<[webhooks.EndpointSettings]>`
    update webhook_endpoints e
    set
      url = coalesce(${change.url ?? null}, url),
      api_key_id = coalesce(${change.url === undefined ? null : apiKeyId}, api_key_id),
      types = coalesce(${change.types ?? null}::text[], types),
      bulk = coalesce(${change.bulk ?? null}::boolean, bulk),
      description = coalesce(${change.description ?? null}, description),
      active = ${active},
      disabled_reason = case when ${active} then null else disabled_reason end,
      ahead = ${ahead},
      failures_in_row = case when ${isFresh} then 0 else failures_in_row end,
      failing_since = case when ${isFresh} then null else failing_since end
    where customer_id = ${customerId}
      and id = ${id}
    returning ${settingsColumns(sql)}`;
  if (change.types || change.bulk === false)
    await sql`
      delete from webhook_deliveries d
      using webhook_endpoints e, journal j
      where d.customer_id = ${customerId}
        and d.endpoint_id = ${id}
        and d.due_at is not null
        and e.customer_id = ${customerId}
        and e.id = ${id}
        and j.customer_id = ${customerId}
        and j.position = d.position
        and not ${isWanted(sql)}`;
  if (isFresh)
    await sql`
      update webhook_deliveries
      set due_at = now()
      where customer_id = ${customerId}
        and endpoint_id = ${id}
        and due_at > now()`;
  if (isFresh || change.types || change.bulk === false)
    await sql`
      update webhook_endpoints
      set next_at = now()
      where customer_id = ${customerId}
        and id = ${id}
        and pending > 0`;
  if (Object.keys(change).length > 0) await record(sql, 'webhook.changed', customerId, row, by);
  return row;
}

const previousSecretTime = '24 hours';

/**
 * Replaces the secret of an endpoint. The previous secret also signs deliveries for 24 hours.
 * @param given `secret`: encrypted; `apiKeyId`: the API key of the caller. A revocation of this key then disables the
 *   endpoint
 * @throws DomainError `not_found`
 */
export async function rotateEndpoint(
  sql: Transaction,
  customerId: string,
  id: string,
  { secret, apiKeyId }: { secret: Buffer; apiKeyId: string | null },
  by: Actor,
): Promise<webhooks.EndpointSettings> {
  const [row] = await sql<webhooks.EndpointSettings[]>`
    update webhook_endpoints e
    set
      previous_secret = secret,
      previous_until = now() + ${previousSecretTime}::interval,
      secret = ${secret},
      api_key_id = coalesce(${apiKeyId}, api_key_id)
    where customer_id = ${customerId}
      and id = ${id}
    returning ${settingsColumns(sql)}`;
  if (!row) throw notFound('webhook endpoint');
  await record(sql, 'webhook.rotated', customerId, row, by);
  return row;
}

export async function deleteEndpoint(sql: Transaction, customerId: string, id: string, by: Actor): Promise<void> {
  const [row] = await sql<webhooks.EndpointSettings[]>`
    delete from webhook_endpoints e
    where customer_id = ${customerId}
      and id = ${id}
    returning ${settingsColumns(sql)}`;
  if (!row) throw notFound('webhook endpoint');
  await sql`
    delete from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${id}
      and due_at is not null`;
  await record(sql, 'webhook.deleted', customerId, row, by);
}

/**
 * Starts a replay: sends the events after the position `from` again, then the later events.
 * @param end last position of the feed
 * @throws DomainError `not_found`; `conflict` if a replay is running
 */
export async function startReplay(
  sql: Transaction,
  customerId: string,
  id: string,
  { from, end }: { from: number; end: number },
): Promise<void> {
  const [row] = await sql<{ first_position: number; replay_end: number | null; begins_at: number | null }[]>`
    select first_position, replay_end, lower(ahead) as begins_at
    from webhook_endpoints
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  if (!row) throw notFound('webhook endpoint');
  const [untried] = await sql`
    select 1
    from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${id}
      and due_at is not null
      and attempt = 1
      and position <= ${row.replay_end}::bigint
    limit 1`;
  if (untried || (row.begins_at ?? Infinity) <= (row.replay_end ?? 0))
    throw conflict('A replay of this endpoint is under way');
  const begin = Math.max(from, row.first_position);
  if (begin >= end) return;
  await sql`
    update webhook_endpoints
    set ahead = ahead + ${rangeBehind(sql, begin, end)}, replay_end = ${end}
    where customer_id = ${customerId}
      and id = ${id}`;
}

export async function disableEndpointsOf(sql: Transaction, customerId: string, apiKeyId: string): Promise<void> {
  const [end] = await sql<[FeedPosition]>`${newestPlace(sql, customerId)}`;
  const rows = await sql<Pick<webhooks.EndpointSettings, 'id' | 'url'>[]>`
    update webhook_endpoints
    set active = false, disabled_reason = 'revoked', ahead = ahead * ${rangeUpTo(sql, end.position)}
    where customer_id = ${customerId}
      and api_key_id = ${apiKeyId}
      and active
    returning id, url`;
  for (const endpoint of rows) await recordDisabled(sql, customerId, endpoint, 'revoked');
}

export interface EndpointAddress {
  url: string;
  /** Encrypted secrets that sign deliveries: the current one and, for 24 hours after a rotation, the previous one. */
  secrets: Buffer[];
}

export async function requireAddress(
  sql: Queryable,
  customerId: string,
  id: string,
): Promise<EndpointAddress & { now: string; event_id: string }> {
  const [row] = await sql<(EndpointAddress & { now: string; event_id: string })[]>`
    select e.url, ${secretsOf(sql)} as secrets, (select clock_timestamp()) as now, (select uuidv7()) as event_id
    from webhook_endpoints e
    where e.customer_id = ${customerId}
      and e.id = ${id}`;
  if (!row) throw notFound('webhook endpoint');
  return row;
}

export const secretsOf = (sql: Queryable) => sql`
  case when e.previous_until > now() then array[e.secret, e.previous_secret] else array[e.secret] end`;

export const recordDisabled = (
  sql: Transaction,
  customerId: string,
  endpoint: Pick<webhooks.EndpointSettings, 'id' | 'url'>,
  reason: webhooks.DisablingReason,
) => record(sql, 'webhook.disabled', customerId, endpoint, { actor: 'service', address: null }, { reason });

/**
 * Records an audit event about an endpoint. Stores only the host of its URL, because path and query can contain a
 * secret.
 */
const record = (
  sql: Transaction,
  event: Extract<AuditEventName, `webhook.${string}`>,
  customerId: string,
  { id, url }: Pick<webhooks.EndpointSettings, 'id' | 'url'>,
  by: Actor,
  more: Record<string, string> = {},
): Promise<void> =>
  recordEvent(sql, { event, customerId, by, details: { webhook: id, host: new URL(url).host, ...more } });

export const listDeliveries = (
  sql: Sql,
  customerId: string,
  endpointId: string,
  { filters, paginate }: { filters?: webhooks.DeliveriesQuery['filters']; paginate?: PageById },
): Promise<(webhooks.Delivery & { id: string })[]> => sql`
  select id, event_id, type, attempt, ok, status, error, ms, sent_at, next_attempt_at
  from webhook_deliveries
  where customer_id = ${customerId}
    and endpoint_id = ${endpointId}
    and due_at is null
    and ${isAfter(sql, 'id', paginate)}
    ${filters?.ok === undefined ? sql`` : filters.ok ? sql`and ok` : sql`and not ok`}
  order by id desc
  ${limitAndOffset(sql, paginate)}`;

const retention = '30 days';
const batchSize = 5_000;

/**
 * Deletes a batch of one endpoint's deliveries that are older than 30 days.
 * @returns false if there was nothing to delete
 */
export async function purgeOldDeliveries(sql: Transaction): Promise<boolean> {
  const [old] = await sql<{ customer_id: string; endpoint_id: string }[]>`
    select customer_id, endpoint_id
    from webhook_deliveries
    where sent_at < (select clock_timestamp()) - ${retention}::interval
    order by sent_at
    limit 1`;
  if (!old) return false;
  const { customer_id: customerId, endpoint_id: endpointId } = old;
  await sql`
    delete from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${endpointId}
      and sent_at < (select clock_timestamp()) - ${retention}::interval
      and id <= coalesce(
        (
          select d.id
          from webhook_deliveries d
          where d.customer_id = ${customerId}
            and d.endpoint_id = ${endpointId}
          order by d.id
          offset ${batchSize - 1}
          limit 1
        ),
        ${highestId}
      )`;
  return true;
}

/** Events that active endpoints have not received yet, counted separately for working and failing endpoints. */
export interface WebhookBacklog {
  standing: 'working' | 'failing';
  /**
   * Number of waiting events: pending deliveries, and events without a delivery. Counts the latter only among the next
   * 1,000 feed positions of each endpoint.
   */
  waiting: number;
  /**
   * Seconds since the oldest waiting event. For failing endpoints, at least the time since one began to fail. 0: no
   * event waits.
   */
  oldest_seconds: number;
}

export const readWebhookBacklog = (sql: Sql): Promise<WebhookBacklog[]> => sql`
  with endpoints as (
    select
      e.customer_id,
      e.id,
      e.failing_since,
      e.pending + count(j.position) as waiting,
      least(min(j.occurred_at), e.failing_since, e.next_at) as since
    from webhook_endpoints e
    join customers c on c.id = e.customer_id
    left join journal j
      on j.customer_id = e.customer_id
      and j.position >= lower(e.ahead)
      and j.position < lower(e.ahead) + ${maxPositionsRead}
      and ${needsDelivery(sql)}
    where e.active
      and c.status = 'OK'
    group by e.customer_id, e.id
  )
  select
    case when failing_since is null then 'working' else 'failing' end as standing,
    sum(waiting)::bigint as waiting,
    greatest(0, extract(epoch from now() - min(since))::float8) as oldest_seconds
  from endpoints
  group by 1`;

const maxPositionsRead = 1_000;
