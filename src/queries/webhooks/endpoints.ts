import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { conflict, notFound } from '../../errors.ts';
import type { Actor, AuditEventName } from '../../schemas/audit.ts';
import {
  maxEndpoints,
  type DisablingReason,
  type Endpoint,
  type EndpointChange,
  type EndpointSettings,
} from '../../schemas/events/webhooks.ts';
import { recordEvent } from '../accounts/audit.ts';
import { newestPlace, type FeedPosition } from '../events/feed.ts';

export const settingsColumns = (sql: Queryable) => sql`
  e.id, e.url, e.types, e.bulk, e.description, e.active, e.created_at`;

/** An endpoint as a response shows it, except for the number of waiting events in the feed. */
export interface EndpointState extends Omit<Endpoint, 'waiting'> {
  position: number;
  set_aside: number;
}

/** Newest first. */
export const listEndpoints = (sql: Queryable, customerId: string, only?: string): Promise<EndpointState[]> =>
  sql<EndpointState[]>`
    select
      ${settingsColumns(sql)}, e.disabled_reason, e.last_success_at, e.last_failure_at, e.failing_since, e.given_up,
      e.position, e.set_aside
    from webhook_endpoints e
    where e.customer_id = ${customerId}
      ${only === undefined ? sql`` : sql`and e.id = ${only}`}
    order by e.id desc`;

/** @throws DomainError `not_found` */
export async function requireEndpoint(sql: Queryable, customerId: string, id: string): Promise<EndpointState> {
  const [endpoint] = await listEndpoints(sql, customerId, id);
  if (!endpoint) throw notFound('webhook endpoint');
  return endpoint;
}

export interface NewEndpoint {
  url: string;
  types: string[];
  bulk: boolean;
  description: string;
  /** Encrypted. */
  secret: Buffer;
  /** End of the feed: nothing before it is sent. */
  end: FeedPosition;
  /** The key that makes the endpoint; null: no key does. */
  apiKeyId: string | null;
}

/**
 * Creates an endpoint and its audit event.
 * @throws DomainError `conflict` if the customer has as many endpoints as it can have
 */
export async function createEndpoint(
  sql: Transaction,
  customerId: string,
  given: NewEndpoint,
  by: Actor,
): Promise<EndpointSettings> {
  await lockEndpoints(sql, customerId);
  const [{ count }] = await sql<[{ count: number }]>`
    select count(*) as count
    from webhook_endpoints
    where customer_id = ${customerId}`;
  if (count >= maxEndpoints) throw conflict(`A customer can have at most ${maxEndpoints} webhook endpoints`);
  const [row] = await sql<[EndpointSettings]>`
    insert into webhook_endpoints as e (
      customer_id, url, types, bulk, description, secret, first_position, position, position_id, api_key_id
    )
    values (
      ${customerId}, ${given.url}, ${given.types}::text[], ${given.bulk}, ${given.description}, ${given.secret},
      ${given.end.position}, ${given.end.position}, ${given.end.id}, ${given.apiKeyId}
    )
    returning ${settingsColumns(sql)}`;
  await sql`
    insert into webhook_customers (customer_id)
    values (${customerId})
    on conflict (customer_id) do nothing`;
  await record(sql, 'webhook.created', customerId, row, by);
  return row;
}

/** Calls for one customer wait in turn. */
const lockEndpoints = (sql: Transaction, customerId: string) =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`webhooks:${customerId}`}, 0))`;

/** What decides how a change is made. */
interface Before {
  url: string;
  active: boolean;
  inactive_from: number | null;
}

/**
 * Changes an endpoint. A new URL, or activating it, makes what is set aside due at once.
 * @param end end of the feed: an inactive endpoint gets nothing of what is recorded from here on
 * @throws DomainError `not_found`
 */
export async function changeEndpoint(
  sql: Transaction,
  customerId: string,
  id: string,
  { change, end }: { change: EndpointChange; end: number },
  by: Actor,
): Promise<EndpointSettings> {
  const [before] = await sql<Before[]>`
    select url, active, inactive_from
    from webhook_endpoints
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  if (!before) throw notFound('webhook endpoint');
  const active = change.active ?? before.active;
  const isFresh = (active && !before.active) || (change.url ?? before.url) !== before.url;
  const gap =
    active && before.inactive_from !== null && before.inactive_from < end ? [[before.inactive_from, end]] : [];
  const inactiveFrom = active ? null : (before.inactive_from ?? end);
  const [row] = await sql<[EndpointSettings]>`
    update webhook_endpoints e
    set
      url = coalesce(${change.url ?? null}, url),
      types = coalesce(${change.types ?? null}::text[], types),
      bulk = coalesce(${change.bulk ?? null}::boolean, bulk),
      description = coalesce(${change.description ?? null}, description),
      active = ${active},
      disabled_reason = case when ${active} then null else disabled_reason end,
      inactive_from = ${inactiveFrom}::bigint,
      gaps = gaps || ${sql.json(gap)},
      failures_in_row = case when ${isFresh} then 0 else failures_in_row end,
      failing_since = case when ${isFresh} then null else failing_since end
    where customer_id = ${customerId}
      and id = ${id}
    returning ${settingsColumns(sql)}`;
  if (isFresh) await makeRetriesDue(sql, customerId, id);
  if (Object.keys(change).length > 0) await record(sql, 'webhook.changed', customerId, row, by);
  return row;
}

async function makeRetriesDue(sql: Transaction, customerId: string, id: string): Promise<void> {
  await sql`
    update webhook_retries
    set due_at = now()
    where customer_id = ${customerId}
      and endpoint_id = ${id}
      and due_at > now()`;
  await sql`
    update webhook_endpoints
    set retry_at = now()
    where customer_id = ${customerId}
      and id = ${id}
      and set_aside > 0`;
}

/** How long the previous secret signs deliveries too. */
const previousSecretTime = '24 hours';

/**
 * Replaces the secret. For 24 hours deliveries are signed with both.
 * @param secret encrypted
 * @throws DomainError `not_found`
 */
export async function rotateEndpoint(
  sql: Transaction,
  customerId: string,
  id: string,
  secret: Buffer,
  by: Actor,
): Promise<EndpointSettings> {
  const [row] = await sql<EndpointSettings[]>`
    update webhook_endpoints e
    set
      previous_secret = secret,
      previous_until = now() + ${previousSecretTime}::interval,
      secret = ${secret}
    where customer_id = ${customerId}
      and id = ${id}
    returning ${settingsColumns(sql)}`;
  if (!row) throw notFound('webhook endpoint');
  await record(sql, 'webhook.rotated', customerId, row, by);
  return row;
}

/** @throws DomainError `not_found` */
export async function deleteEndpoint(sql: Transaction, customerId: string, id: string, by: Actor): Promise<void> {
  const [row] = await sql<EndpointSettings[]>`
    delete from webhook_endpoints e
    where customer_id = ${customerId}
      and id = ${id}
    returning ${settingsColumns(sql)}`;
  if (!row) throw notFound('webhook endpoint');
  await record(sql, 'webhook.deleted', customerId, row, by);
}

/**
 * Begins to send again what the feed has after `from`.
 * @param end end of the feed
 * @throws DomainError `not_found`; `conflict` if a replay is under way
 */
export async function startReplay(
  sql: Transaction,
  customerId: string,
  id: string,
  { from, end }: { from: FeedPosition; end: FeedPosition },
): Promise<void> {
  const [row] = await sql<{ is_under_way: boolean; first_position: number }[]>`
    select replay_position is not null as is_under_way, first_position
    from webhook_endpoints
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  if (!row) throw notFound('webhook endpoint');
  if (row.is_under_way) throw conflict('A replay of this endpoint is under way');
  if (Math.max(from.position, row.first_position) >= end.position) return;
  await sql`
    update webhook_endpoints
    set replay_position = ${from.position}, replay_id = ${from.id}, replay_end = ${end.position}
    where customer_id = ${customerId}
      and id = ${id}`;
}

/** Disables the active endpoints that a key has made, because it is revoked. */
export async function disableEndpointsOf(sql: Transaction, customerId: string, apiKeyId: string): Promise<void> {
  const [end] = await sql<[FeedPosition]>`${newestPlace(sql, customerId)}`;
  const rows = await sql<Pick<EndpointSettings, 'id' | 'url'>[]>`
    update webhook_endpoints
    set active = false, disabled_reason = 'revoked', inactive_from = ${end.position}
    where customer_id = ${customerId}
      and api_key_id = ${apiKeyId}
      and active
    returning id, url`;
  for (const endpoint of rows) await recordDisabled(sql, customerId, endpoint, 'revoked');
}

/** What is needed to send to an endpoint. */
export interface EndpointAddress {
  url: string;
  /** Encrypted. First the current secret; for a while after a rotation also the one before, which signs too. */
  secrets: Buffer[];
}

/**
 * Returns with it the time, and an id for an event.
 * @throws DomainError `not_found`
 */
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

/** Returns the encrypted secrets that sign deliveries of an endpoint now, or undefined if it is inactive or deleted. */
export async function findSecrets(sql: Sql, customerId: string, id: string): Promise<Buffer[] | undefined> {
  const [row] = await sql<Pick<EndpointAddress, 'secrets'>[]>`
    select ${secretsOf(sql)} as secrets
    from webhook_endpoints e
    where e.customer_id = ${customerId}
      and e.id = ${id}
      and e.active`;
  return row?.secrets;
}

/** The secrets with which the endpoint `e` has its deliveries signed now. */
const secretsOf = (sql: Queryable) => sql`
  case when e.previous_until > now() then array[e.secret, e.previous_secret] else array[e.secret] end`;

/** Records that the service has disabled an endpoint. */
export const recordDisabled = (
  sql: Transaction,
  customerId: string,
  endpoint: Pick<EndpointSettings, 'id' | 'url'>,
  reason: DisablingReason,
): Promise<void> =>
  record(sql, 'webhook.disabled', customerId, endpoint, { actor: 'service', address: null }, { reason });

/** The path and the query of a URL can contain a secret, so only its host is kept. */
const record = (
  sql: Transaction,
  event: Extract<AuditEventName, `webhook.${string}`>,
  customerId: string,
  { id, url }: Pick<EndpointSettings, 'id' | 'url'>,
  by: Actor,
  more: Record<string, string> = {},
): Promise<void> =>
  recordEvent(sql, { event, customerId, by, details: { webhook: id, host: new URL(url).host, ...more } });
