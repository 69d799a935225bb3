import type { Sql, Transaction } from '../../database/db.ts';
import type { EventType } from '../../schemas/events/types.ts';
import type { DeliveryError, DisablingReason } from '../../schemas/events/webhooks.ts';
import { endpointColumns, stuckAfter, type EndpointRow } from '../jobs/endpoint-rows.ts';
import { recordDisabled } from './endpoints.ts';
import type { FeedPosition } from '../events/feed.ts';

/** An event that is set aside, and due. */
export interface Retry {
  position: number;
  event_id: string;
  type: EventType;
  body: string;
  attempts: number;
}

/** The database's time, and the events that are due now. If too many deliveries failed in a row, only the oldest. */
export async function findDueRetries(
  sql: Sql,
  { customer_id: customerId, id, failures_in_row }: EndpointRow,
  limit: number,
): Promise<{ now: string; retries: Retry[] }> {
  const isStuck = failures_in_row >= stuckAfter;
  const [[{ now }], retries] = await Promise.all([
    sql<[{ now: string }]>`select clock_timestamp() as now`,
    sql<Retry[]>`
      select position, event_id, type, body, attempts
      from (
        select *
        from webhook_retries
        where customer_id = ${customerId}
          and endpoint_id = ${id}
        order by ${isStuck ? sql`position` : sql`due_at, position`}
        limit ${isStuck ? 1 : limit}
      ) first
      where due_at <= now()
      order by due_at, position`,
  ]);
  return { now, retries };
}

/** How one try to deliver an event ended. */
export interface Attempt {
  position: number;
  event_id: string;
  type: EventType;
  body: string;
  /** Number of the try, from 1. */
  attempt: number;
  ok: boolean;
  status: number | null;
  error: DeliveryError | null;
  ms: number;
  sent_at: string;
  /** Seconds until the next try; null: no further try. */
  retry_in: number | null;
}

/** What a round changes. */
export interface Round {
  /** In the order in which they ended. */
  attempts: readonly Attempt[];
  /** The settings by which the round has read and sent. They may have changed meanwhile. */
  settings: Pick<EndpointRow, 'url' | 'types' | 'bulk'>;
  next: FeedPosition;
  /** Where a replay stands; null if it is at its end. Undefined: the round has read none, so one that began meanwhile stays. */
  replay: FeedPosition | null | undefined;
  /** Set if the endpoint is to be disabled. `end` is the end of the feed. */
  disable: { reason: DisablingReason; end: number } | null;
}

/** Returns where the replay of an endpoint stands, or null if none is under way. */
export const replayOf = ({ replay_position, replay_id }: EndpointRow): FeedPosition | null =>
  replay_position === null ? null : { position: replay_position, id: replay_id };

/**
 * Stores how the tries of a round ended. The caller must have locked the endpoint.
 * @returns the endpoint as it is then
 */
export async function saveRound(sql: Transaction, endpoint: EndpointRow, round: Round): Promise<EndpointRow> {
  // A URL that was replaced says nothing of the new one: what it has refused is due at once.
  const isCurrent = endpoint.url === round.settings.url;
  const attempts = isCurrent ? round.attempts : round.attempts.map(dueAtOnce);
  const disable = isCurrent ? round.disable : null;
  await saveAttempts(sql, endpoint, attempts);
  if (disable) await recordDisabled(sql, endpoint.customer_id, endpoint, disable.reason);
  // What the round has skipped may be wanted now. So it is read again, and sent again: at least once.
  const { next, replay } = wantsMore(endpoint, round.settings)
    ? { next: { position: endpoint.position, id: endpoint.position_id }, replay: undefined }
    : round;
  return moveEndpoint(sql, endpoint, { ...round, next, replay, attempts: isCurrent ? attempts : [], disable });
}

const wantsMore = ({ types, bulk }: EndpointRow, before: Round['settings']): boolean =>
  (bulk && !before.bulk) || types.some((type) => !before.types.includes(type));

const dueAtOnce = (attempt: Attempt): Attempt => ({ ...attempt, retry_in: attempt.ok ? null : 0 });

async function saveAttempts(
  sql: Transaction,
  { customer_id: customerId, id }: EndpointRow,
  attempts: readonly Attempt[],
): Promise<void> {
  if (attempts.length > 0) {
    await insertDeliveries(sql, customerId, id, attempts);
    const [failed, over] = [attempts.filter(willRetry), attempts.filter((one) => !willRetry(one))];
    if (failed.length > 0) await setAside(sql, customerId, id, failed);
    if (over.length > 0) await removeRetries(sql, customerId, id, over);
  }
}

const willRetry = ({ retry_in }: Attempt): boolean => retry_in !== null;

async function insertDeliveries(
  sql: Transaction,
  customerId: string,
  id: string,
  attempts: readonly Attempt[],
): Promise<void> {
  await sql`
    insert into webhook_deliveries (
      customer_id, endpoint_id, event_id, type, attempt, ok, status, error, ms, sent_at, next_attempt_at
    )
    select
      ${customerId}, ${id}, a.event_id, a.type, a.attempt, a.ok, a.status, a.error, a.ms, a.sent_at,
      now() + a.retry_in * interval '1 second'
    from jsonb_to_recordset(${sql.json(attempts as never)}) as a (
      event_id uuid, type text, attempt smallint, ok boolean, status smallint, error text, ms integer,
      sent_at timestamptz, retry_in integer
    )`;
}

/** An event that is set aside already, and failed in a replay, keeps its number of tries. */
async function setAside(sql: Transaction, customerId: string, id: string, failed: readonly Attempt[]): Promise<void> {
  await sql`
    insert into webhook_retries (customer_id, endpoint_id, position, event_id, type, body, attempts, due_at)
    select ${customerId}, ${id}, a.position, a.event_id, a.type, a.body, a.attempt, now() + a.retry_in * interval '1 second'
    from jsonb_to_recordset(${sql.json(failed as never)}) as a (
      position bigint, event_id uuid, type text, body text, attempt smallint, retry_in integer
    )
    order by a.position
    on conflict (customer_id, endpoint_id, position) do update
    set attempts = excluded.attempts, due_at = excluded.due_at
    where webhook_retries.attempts < excluded.attempts`;
}

async function removeRetries(
  sql: Transaction,
  customerId: string,
  id: string,
  over: readonly Attempt[],
): Promise<void> {
  await sql`
    delete from webhook_retries
    where customer_id = ${customerId}
      and endpoint_id = ${id}
      and position = any(${over.map(({ position }) => position)}::bigint[])`;
}

/** Moves the position of an endpoint, and updates its state. */
async function moveEndpoint(sql: Transaction, endpoint: EndpointRow, round: Round): Promise<EndpointRow> {
  const { customer_id: customerId, id } = endpoint;
  const { attempts, next, replay = replayOf(endpoint), disable } = round;
  const successes = attempts.filter(({ ok }) => ok);
  const failures = attempts.filter(({ ok }) => !ok);
  const sinceSuccess = attempts.slice(attempts.findLastIndex(({ ok }) => ok) + 1);
  const inRow = sinceSuccess.length + (successes.length > 0 ? 0 : endpoint.failures_in_row);
  const failingSince =
    inRow === 0 ? null : ((successes.length > 0 ? null : endpoint.failing_since) ?? sinceSuccess[0]!.sent_at);
  const gaps = endpoint.gaps.filter(([, end]) => end > next.position);
  const retries = sql`
    select count(*)::integer as kept, min(due_at) as first_due, min(case when is_oldest then due_at end) as oldest_due
    from (
      select due_at, row_number() over (order by position) = 1 as is_oldest
      from webhook_retries
      where customer_id = ${customerId}
        and endpoint_id = ${id}
    ) r`;
  const [row] = await sql<[EndpointRow]>`
    update webhook_endpoints
    set
      position = ${next.position},
      position_id = ${next.id},
      gaps = ${sql.json(gaps)},
      replay_position = ${replay?.position ?? null},
      replay_id = ${replay?.id ?? null},
      replay_end = case when ${replay === null} then null else replay_end end,
      failures_in_row = ${inRow},
      failing_since = ${failingSince}::timestamptz,
      last_success_at = coalesce(${successes.at(-1)?.sent_at ?? null}::timestamptz, last_success_at),
      last_failure_at = coalesce(${failures.at(-1)?.sent_at ?? null}::timestamptz, last_failure_at),
      given_up = given_up + ${failures.filter(({ retry_in }) => retry_in === null).length},
      active = active and ${disable === null},
      disabled_reason = coalesce(${disable?.reason ?? null}, disabled_reason),
      inactive_from = coalesce(inactive_from, ${disable?.end ?? null}::bigint),
      failures = 0,
      set_aside = retries.kept,
      retry_at = case when ${inRow >= stuckAfter} then retries.oldest_due else retries.first_due end
    from (${retries}) retries
    where customer_id = ${customerId}
      and id = ${id}
    returning ${endpointColumns(sql)}`;
  return row;
}
