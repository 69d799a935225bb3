import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { allCustomers } from '../access/credentials.ts';
import { type SharedDatabase, retryLevel } from '../database/db.ts';
import { isUnavailable } from '../errors.ts';
import { FairSemaphore } from '../access/concurrency-limiter.ts';
import { webhookDeliveries } from '../process/metrics.ts';
import { findDueEndpoints, maxAtOnce, visitEndpoint } from '../queries/accounts/webhook-sending.ts';
import type { Attempt, Due, DueEndpoint, Visit } from '../queries/accounts/webhook-sending.ts';
import { SecretBox } from '../accounts/webhook-targets.ts';
import { openSender } from '../accounts/webhook-sender.ts';
import type { JobContext } from './turns.ts';

/**
 * Seconds to wait after the first, second … failed attempt to send an event. After the last attempt, the event is given
 * up.
 */
const pauses = [5, 5 * 60, 30 * 60, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * 3600)];

const spread = 0.2;

const maxRetryAfterSeconds = 24 * 3600;

/**
 * Returns the seconds until the next attempt to send an event, or null if it is given up.
 * @param attempt number of the failed attempt, from 1
 * @param asked seconds that the receiver asked to wait
 */
function pauseAfter(attempt: number, asked: number | null): number | null {
  const pause = pauses[attempt - 1];
  if (pause === undefined) return null;
  const spreadOut = pause * (1 + spread * (2 * Math.random() - 1));
  return Math.ceil(Math.max(spreadOut, Math.min(asked ?? 0, maxRetryAfterSeconds)));
}

const searchIntervalMs = 300;
/** Milliseconds after which a search stops serving further endpoints. The next search may find more urgent ones. */
const lookMs = 1_000;
const maxFound = 2_000;
const begunAtOnce = 4;
/**
 * Milliseconds of an endpoint's turn. After that, no further delivery to it starts until the other endpoints had their
 * turn.
 */
const turnMs = 5_000;
const pauseMs = 2_000;
const deliveryMs = 15_000;

interface SendContext extends Pick<JobContext, 'config' | 'log'> {
  db: SharedDatabase;
}

/** Starts to send webhooks. `stop` ends it after the deliveries in progress. */
export function startSending(context: SendContext, key: string): { stop(): Promise<void> } {
  const count = context.config.WEBHOOK_DELIVERIES;
  const box = new SecretBox(key);
  const sender = openSender(context.config);
  const stopping = new AbortController();
  const slots = new FairSemaphore(count);
  const slotsOfOthers = new FairSemaphore(Math.ceil(count / 2));
  const busy = new Map<string, Promise<void>>();
  // Endpoints that work do not wait until many others have been looked at.
  const loops = [watch(true), watch(false)];
  return {
    stop: async () => {
      stopping.abort();
      await Promise.all(loops);
      await Promise.all(busy.values());
      await sender.close();
    },
  };

  async function watch(areWorking: boolean): Promise<void> {
    const { signal } = stopping;
    while (!signal.aborted) {
      await look(areWorking).catch((err: unknown) =>
        context.log[retryLevel(err)]({ err }, 'the endpoints of webhooks could not be looked at; retrying'),
      );
      await sleep(searchIntervalMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async function look(areWorking: boolean): Promise<void> {
    const db = context.db.for({ customerId: allCustomers }, null);
    const due = await db.search((sql) => findDueEndpoints(sql, areWorking, maxFound));
    const heldBy = ({ customer_id: customerId }: DueEndpoint) => slots.heldBy(customerId);
    const found = due.toSorted((one, other) => heldBy(one) - heldBy(other)).values();
    const end = performance.now() + lookMs;
    const work = async () => {
      for (const endpoint of found) {
        if (stopping.signal.aborted || performance.now() > end) return;
        if (busy.has(endpoint.id)) continue;
        const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
        const serving = serve(endpoint, areWorking, begin).finally(() => {
          busy.delete(endpoint.id);
          begin();
        });
        busy.set(endpoint.id, serving);
        await begun;
      }
    };
    await Promise.all(Array.from({ length: begunAtOnce }, work));
  }

  /**
   * Sends to an endpoint until no event is left, its turn is over, or its customer has no free slot. Never rejects.
   * @param begun called after the first look at the endpoint's events
   */
  async function serve({ customer_id: customerId, id }: DueEndpoint, isWorking: boolean, begun: () => void) {
    const log = context.log.child({ webhook_id: id, customer: customerId });
    const db = context.db.for({ customerId }, 'job');
    const visitor = { customerId, id, takenBy: crypto.randomUUID() };
    const underWay = new Map<Due, Promise<void>>();
    const ended: Attempt[] = [];
    const end = performance.now() + turnMs;
    try {
      for (let hasRead = true; hasRead || underWay.size + ended.length > 0;) {
        const areWorking = isWorking;
        const isOver = stopping.signal.aborted || performance.now() > end;
        const freeSlots = isOver ? 0 : take(customerId, areWorking, underWay.size);
        if (freeSlots + underWay.size + ended.length === 0) return;
        let free = freeSlots;
        try {
          const state = { ended: ended.splice(0), underWay: [...underWay.keys()], freeSlots };
          const visit = await db.transaction((sql) => visitEndpoint(sql, visitor, state));
          if (!visit) return;
          const send = senderFor(customerId, visit, log);
          for (const due of visit.due) {
            const sending = async () => {
              ended.push(await send(due));
              underWay.delete(due);
              release(customerId, areWorking, 1);
            };
            underWay.set(due, sending());
            free -= 1;
          }
          if (visit.disabled) log.info({ reason: visit.disabled }, 'the service has disabled a webhook');
          ({ hasRead, works: isWorking } = visit);
        } finally {
          release(customerId, areWorking, free);
          begun();
        }
        if (ended.length === 0 && underWay.size > 0) await Promise.race(underWay.values());
      }
    } catch (err) {
      // Nobody has stored how the last tries ended. They are repeated.
      log[isUnavailable(err) ? 'warn' : 'error']({ err }, 'webhooks could not be sent; retrying');
      await sleep(pauseMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined);
    } finally {
      await Promise.all(underWay.values());
    }
  }

  function take(customerId: string, isWorking: boolean, underWay: number): number {
    const most = (isWorking ? maxAtOnce.works : maxAtOnce.other) - underWay;
    let taken = 0;
    while (taken < most && takeOne(customerId, isWorking)) taken += 1;
    return taken;
  }

  function takeOne(customerId: string, isWorking: boolean): boolean {
    if (!isWorking && !slotsOfOthers.tryTake(customerId)) return false;
    const isTaken = slots.tryTake(customerId);
    if (!isTaken && !isWorking) slotsOfOthers.release(customerId);
    return isTaken;
  }

  function release(customerId: string, isWorking: boolean, count: number): void {
    if (count === 0) return;
    slots.release(customerId, count);
    if (!isWorking) slotsOfOthers.release(customerId, count);
  }

  function senderFor(customerId: string, { url, secrets: sealed, now }: Visit, log: FastifyBaseLogger) {
    const secrets = sealed.map((one) => box.open(customerId, one));
    const visitedAt = performance.now();
    return async (due: Due): Promise<Attempt> => {
      // By the database's clock.
      const sentAt = new Date(Date.parse(now) + performance.now() - visitedAt);
      const message = { url, id: due.event_id, body: due.body, sentAt, secrets };
      const { retryAfter, ...outcome } = await sender.send(message, deliveryMs);
      webhookDeliveries.inc({ outcome: outcome.ok ? 'delivered' : 'failed' });
      if (!outcome.ok) log.debug({ status: outcome.status, reason: outcome.error }, 'a webhook was not delivered');
      const retry_in = outcome.ok ? null : pauseAfter(due.attempt, retryAfter);
      return { ...due, url, ...outcome, sent_at: sentAt.toISOString(), retry_in };
    };
  }
}
