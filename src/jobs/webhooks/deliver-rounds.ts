import { isUnavailable } from '../../errors.ts';
import { webhookDeliveries } from '../../process/metrics.ts';
import { maxSetAside, stuckAfter, type EndpointRow } from '../../queries/jobs/endpoint-rows.ts';
import { findEnd } from '../../queries/events/feed.ts';
import { findSecrets } from '../../queries/webhooks/endpoints.ts';
import { findDueRetries, saveRound, type Attempt, type Round } from '../../queries/webhooks/rounds.ts';
import type { DisablingReason } from '../../schemas/events/webhooks.ts';
import type { Outcome } from '../../webhooks/sender.ts';
import type { JobContext } from '../handler.ts';
import { underLease } from '../settle.ts';
import type { RunBatch } from '../turns.ts';
import { standingOf, type Slot, type Standing } from './delivery-slots.ts';
import { readFeed, type Outgoing } from './read-feed.ts';
import { pauseAfter } from './schedule.ts';
import type { Webhooks } from './webhooks.ts';

/** How long a receiver has (ms). */
const deliveryMs = 15_000;

/** Deliveries of one endpoint that are under way at the same time. */
const mostAtOnce = 10;

/** Events of one round. */
const roundSize = 50;

/** After this time no further round begins (ms). */
const batchMs = 10_000;

/** An endpoint that only failed for so long is disabled (ms). */
const mostFailingMs = 5 * 24 * 3_600_000;

/** HTTP status with which a receiver says that it wants no more. */
const gone = 410;

/**
 * Sends what an endpoint is to get, round by round. The end of a round is stored in one transaction. Until then nobody
 * knows of it: if the worker dies, the next one sends these events again.
 * @param slot for the first delivery
 */
export const deliverRounds =
  (slot: Slot): RunBatch<'webhooks'> =>
  async (context, leased, signal) => {
    const end = performance.now() + batchMs;
    let endpoint: EndpointRow = leased;
    let held: Slot | undefined = slot;
    try {
      while (held && endpoint.active && !signal.aborted && performance.now() < end) {
        const round = await deliverRound(context, endpoint, held, signal);
        if (!round) return;
        endpoint = await underLease(context.db, leased, (sql, locked) => saveRound(sql, locked, round));
        if (round.disable && !endpoint.active)
          context.log.info({ reason: round.disable.reason }, 'the service has disabled a webhook');
        held = keepSlot(context.webhooks, endpoint, held, standingOf(leased));
      }
    } finally {
      held?.release();
    }
  };

/** Returns a slot for the next round: the same if it is still held, and the endpoint is known as it was. */
function keepSlot({ slots }: Webhooks, endpoint: EndpointRow, slot: Slot, standing: Standing): Slot | undefined {
  if (slot.isHeld && standingOf(endpoint) === standing) return slot;
  slot.release();
  return standingOf(endpoint) === standing ? slots.tryTake(endpoint.customer_id, standing) : undefined;
}

/** Sends one round. Returns undefined if there is nothing to send, and nothing to skip. */
async function deliverRound(
  context: JobContext,
  endpoint: EndpointRow,
  slot: Slot,
  signal: AbortSignal,
): Promise<Round | undefined> {
  const { db } = context;
  // An endpoint that is not known to work gets one event at a time.
  const limit = standingOf(endpoint) === 'working' ? roundSize : 1;
  const { now, retries } = await db.lookup((sql) => findDueRetries(sql, endpoint, limit));
  const clock = clockFrom(now);
  const retried = retries.map(({ attempts, ...retry }): Outgoing => ({ ...retry, attempt: attempts + 1 }));
  const reading = await readFeed(db, endpoint, roomFor(endpoint, limit - retried.length));
  if (retried.length === 0 && reading.isEmpty) return undefined;
  const outgoing = distinct([...retried, ...reading.events]);
  const attempts = await sendAll(context, { endpoint, events: outgoing, clock }, slot, signal);
  const tried = new Set(outgoing.slice(0, attempts.length).map(({ position }) => position));
  const open = reading.events.findIndex(({ position }) => !tried.has(position));
  const places = reading.placesAfter(open === -1 ? reading.events.length : open);
  const reason = reasonToDisable(endpoint, attempts, clock());
  const disable = reason && { reason, end: (await findEnd(db, endpoint.customer_id)).position };
  return { attempts, settings: endpoint, ...places, disable };
}

/** The time by the database's clock, as it goes on. */
function clockFrom(now: string): () => Date {
  const readAt = performance.now();
  return () => new Date(Date.parse(now) + performance.now() - readAt);
}

/**
 * Returns how many events of the feed may be tried. After too many failures in a row it is one, once nothing is set aside:
 * else such an endpoint would never be tried again.
 */
function roomFor({ failures_in_row, set_aside }: EndpointRow, limit: number): number {
  if (failures_in_row < stuckAfter) return Math.min(limit, maxSetAside - set_aside);
  return set_aside === 0 ? Math.min(limit, 1) : 0;
}

/** A replay can read an event that is set aside, or new. */
const distinct = (events: readonly Outgoing[]): Outgoing[] =>
  [...new Map(events.toReversed().map((event) => [event.position, event])).values()].toReversed();

/** What a round sends. */
interface Sending {
  endpoint: EndpointRow;
  events: readonly Outgoing[];
  clock: () => Date;
}

/**
 * Tries the events in order, several at the same time as far as slots are free. After a failure no further one begins.
 * @returns the tries in the order in which they ended; those events that were not tried are the last ones
 */
async function sendAll(
  context: JobContext,
  { endpoint, events, clock }: Sending,
  slot: Slot,
  signal: AbortSignal,
): Promise<Attempt[]> {
  const { webhooks, log } = context;
  const waiting = events.values();
  const attempts: Attempt[] = [];
  const standing = standingOf(endpoint);
  const hasFailed = () => attempts.some(({ ok }) => !ok);
  const work = async (own: Slot): Promise<void> => {
    while (own.isHeld && !signal.aborted && !hasFailed()) {
      const secrets = await secretsOf(context, endpoint);
      if (!secrets || hasFailed()) return;
      const { value: event } = waiting.next();
      if (!event) return;
      const sentAt = clock();
      const message = { url: endpoint.url, id: event.event_id, body: event.body, sentAt, secrets };
      const outcome = await webhooks.slots.run(own, standing, () => webhooks.sender.send(message, deliveryMs));
      attempts.push(attemptOf(event, outcome, sentAt));
      webhookDeliveries.inc({ outcome: outcome.ok ? 'delivered' : 'failed' });
      if (!outcome.ok) log.debug({ status: outcome.status, reason: outcome.error }, 'a webhook was not delivered');
    }
  };
  const others = takeSlots(webhooks, endpoint, Math.min(mostAtOnce, events.length) - 1);
  try {
    await Promise.all([slot, ...others].map(work));
  } finally {
    for (const other of others) other.release();
  }
  return attempts;
}

/** Takes at most `count` slots. */
function takeSlots({ slots }: Webhooks, endpoint: EndpointRow, count: number): Slot[] {
  const taken: Slot[] = [];
  while (taken.length < count) {
    const slot = slots.tryTake(endpoint.customer_id, standingOf(endpoint));
    if (!slot) break;
    taken.push(slot);
  }
  return taken;
}

/**
 * Returns the secrets that are valid now, because they can be replaced during a round. Undefined if the endpoint is
 * inactive or deleted, or the database does not respond: what the round has sent is stored all the same.
 */
async function secretsOf(
  { db, webhooks }: JobContext,
  { customer_id: customerId, id }: EndpointRow,
): Promise<string[] | undefined> {
  try {
    const sealed = await db.lookup((sql) => findSecrets(sql, customerId, id));
    return sealed?.map((one) => webhooks.box!.open(customerId, one));
  } catch (error) {
    if (isUnavailable(error)) return undefined;
    throw error;
  }
}

function attemptOf({ position, event_id, type, body, attempt }: Outgoing, outcome: Outcome, sentAt: Date): Attempt {
  const { ok, status, error, ms, retryAfter } = outcome;
  const retry_in = ok ? null : pauseAfter(attempt, retryAfter);
  return { position, event_id, type, body, attempt, ok, status, error, ms, sent_at: sentAt.toISOString(), retry_in };
}

/** Returns why the endpoint must be disabled after these tries, or null. */
function reasonToDisable(
  { failing_since }: EndpointRow,
  attempts: readonly Attempt[],
  now: Date,
): DisablingReason | null {
  if (attempts.some(({ status }) => status === gone)) return 'gone';
  const hasOnlyFailed = attempts.length > 0 && attempts.every(({ ok }) => !ok) && failing_since !== null;
  return hasOnlyFailed && now.getTime() - Date.parse(failing_since) >= mostFailingMs ? 'failing' : null;
}
