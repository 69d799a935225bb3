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
import { openSender, type Sender } from '../accounts/webhook-sender.ts';
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

export class WebhookSending {
  readonly #context: SendContext;
  readonly #box: SecretBox;
  readonly #sender: Sender;
  readonly #stopping = new AbortController();
  readonly #loops: Promise<void>[];
  readonly #slots: FairSemaphore;
  /** Slots for endpoints whose last delivery failed, and for new endpoints: half as many as all slots. */
  readonly #slotsOfOthers: FairSemaphore;
  readonly #busy = new Map<string, Promise<void>>();

  constructor(context: SendContext, key: string) {
    const count = context.config.WEBHOOK_DELIVERIES;
    this.#context = context;
    this.#box = new SecretBox(key);
    this.#sender = openSender(context.config);
    this.#slots = new FairSemaphore(count);
    this.#slotsOfOthers = new FairSemaphore(Math.ceil(count / 2));
    // Endpoints that work do not wait until many others have been looked at.
    this.#loops = [this.#watch(true), this.#watch(false)];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#loops);
    await Promise.all(this.#busy.values());
    await this.#sender.close();
  }

  async #watch(areWorking: boolean): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#look(areWorking).catch((err: unknown) =>
        this.#context.log[retryLevel(err)]({ err }, 'the endpoints of webhooks could not be looked at; retrying'),
      );
      await sleep(searchIntervalMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #look(areWorking: boolean): Promise<void> {
    const db = this.#context.db.for({ customerId: allCustomers }, null);
    const due = await db.search((sql) => findDueEndpoints(sql, areWorking, maxFound));
    const heldBy = ({ customer_id: customerId }: DueEndpoint) => this.#slots.heldBy(customerId);
    const found = due.toSorted((one, other) => heldBy(one) - heldBy(other)).values();
    const end = performance.now() + lookMs;
    const work = async () => {
      for (const endpoint of found) {
        if (this.#stopping.signal.aborted || performance.now() > end) return;
        if (this.#busy.has(endpoint.id)) continue;
        const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
        const serving = this.#serve(endpoint, areWorking, begin).finally(() => {
          this.#busy.delete(endpoint.id);
          begin();
        });
        this.#busy.set(endpoint.id, serving);
        await begun;
      }
    };
    await Promise.all(Array.from({ length: begunAtOnce }, work));
  }

  /**
   * Sends to an endpoint until no event is left, its turn is over, or its customer has no free slot. Never rejects.
   * @param begun called after the first look at the endpoint's events
   */
  async #serve({ customer_id: customerId, id }: DueEndpoint, isWorking: boolean, begun: () => void): Promise<void> {
    const log = this.#context.log.child({ webhook_id: id, customer: customerId });
    const db = this.#context.db.for({ customerId }, 'job');
    const visitor = { customerId, id, takenBy: crypto.randomUUID() };
    const underWay = new Map<Due, Promise<void>>();
    const ended: Attempt[] = [];
    const end = performance.now() + turnMs;
    try {
      for (let hasRead = true; hasRead || underWay.size + ended.length > 0;) {
        const areWorking = isWorking;
        const isOver = this.#stopping.signal.aborted || performance.now() > end;
        const freeSlots = isOver ? 0 : this.#take(customerId, areWorking, underWay.size);
        if (freeSlots + underWay.size + ended.length === 0) return;
        let free = freeSlots;
        try {
          const state = { ended: ended.splice(0), underWay: [...underWay.keys()], freeSlots };
          const visit = await db.transaction((sql) => visitEndpoint(sql, visitor, state));
          if (!visit) return;
          const send = this.#senderFor(customerId, visit, log);
          for (const due of visit.due) {
            const sending = async () => {
              ended.push(await send(due));
              underWay.delete(due);
              this.#release(customerId, areWorking, 1);
            };
            underWay.set(due, sending());
            free -= 1;
          }
          if (visit.disabled) log.info({ reason: visit.disabled }, 'the service has disabled a webhook');
          ({ hasRead, works: isWorking } = visit);
        } finally {
          this.#release(customerId, areWorking, free);
          begun();
        }
        if (ended.length === 0 && underWay.size > 0) await Promise.race(underWay.values());
      }
    } catch (err) {
      // Nobody has stored how the last tries ended. They are repeated.
      log[isUnavailable(err) ? 'warn' : 'error']({ err }, 'webhooks could not be sent; retrying');
      await sleep(pauseMs, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
    } finally {
      await Promise.all(underWay.values());
    }
  }

  #take(customerId: string, isWorking: boolean, underWay: number): number {
    const most = (isWorking ? maxAtOnce.works : maxAtOnce.other) - underWay;
    let taken = 0;
    while (taken < most && this.#takeOne(customerId, isWorking)) taken += 1;
    return taken;
  }

  #takeOne(customerId: string, isWorking: boolean): boolean {
    if (!isWorking && !this.#slotsOfOthers.tryTake(customerId)) return false;
    const isTaken = this.#slots.tryTake(customerId);
    if (!isTaken && !isWorking) this.#slotsOfOthers.release(customerId);
    return isTaken;
  }

  #release(customerId: string, isWorking: boolean, count: number): void {
    if (count === 0) return;
    this.#slots.release(customerId, count);
    if (!isWorking) this.#slotsOfOthers.release(customerId, count);
  }

  #senderFor(customerId: string, { url, secrets: sealed, now }: Visit, log: FastifyBaseLogger) {
    const secrets = sealed.map((one) => this.#box.open(customerId, one));
    const visitedAt = performance.now();
    return async (due: Due): Promise<Attempt> => {
      // By the database's clock.
      const sentAt = new Date(Date.parse(now) + performance.now() - visitedAt);
      const message = { url, id: due.event_id, body: due.body, sentAt, secrets };
      const { retryAfter, ...outcome } = await this.#sender.send(message, deliveryMs);
      webhookDeliveries.inc({ outcome: outcome.ok ? 'delivered' : 'failed' });
      if (!outcome.ok) log.debug({ status: outcome.status, reason: outcome.error }, 'a webhook was not delivered');
      const retry_in = outcome.ok ? null : pauseAfter(due.attempt, retryAfter);
      return { ...due, url, ...outcome, sent_at: sentAt.toISOString(), retry_in };
    };
  }
}
