import { AsyncLocalStorage } from 'node:async_hooks';
import { PgBoss } from 'pg-boss';
import type { Transaction } from '../database/db.ts';
import { queueSchema, type JobKind } from '../database/queues.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { currentTrace } from '../tracing/tracing.ts';

/**
 * The queue message that starts a turn: a short period in which one worker works on one customer's jobs. If tracing is
 * on, the message also has the trace context of the request or turn that enqueued it.
 */
export interface Turn extends TraceContext {
  customerId: string;
}

/** The data of a queue message, by kind of job. */
export interface JobPayloads extends Record<JobKind, object> {
  unlock: Turn;
  verify: Turn;
  'settle-companies': Turn;
  'fill-lists': Turn;
  import: Turn;
  'sweep-jobs': Record<string, never>;
  'remove-idempotency-records': Record<string, never>;
}

/** The kinds of jobs whose queue message starts a turn: a short period in which one worker works for one customer. */
export type TurnKind = { [K in JobKind]: JobPayloads[K] extends Turn ? K : never }[JobKind];

/** A delay before a turn may start. */
export interface Delay {
  seconds: number;
  /** A name for this delay. The queue keeps at most one delayed turn for each customer and name. */
  name: string;
}

/**
 * Enqueues a turn (a short period of work for one customer), as part of the caller's transaction: workers see the
 * message only after the commit, and a rollback removes it.
 * @param delay if absent, a worker may start at once
 * @returns false if the queue already contains a message for the customer; then nothing is enqueued
 */
export async function sendTurn(sql: Transaction, queue: TurnKind, customerId: string, delay?: Delay): Promise<boolean> {
  // A delayed turn has another key, so that it does not block a turn that may start at once.
  const options = delay
    ? { singletonKey: `${customerId} ${delay.name}`, startAfter: delay.seconds }
    : { singletonKey: customerId };
  return (await asking.run(sql, () => sender.send(queue, { customerId, ...currentTrace() }, options))) !== null;
}

/**
 * Enqueues one turn (a short period of work for one customer) for each of these customers. Skips customers for which a
 * turn is already waiting in the queue.
 * @returns the number of turns enqueued
 */
export async function enqueueTurns(sql: Transaction, queue: TurnKind, customerIds: string[]): Promise<number> {
  const messages = customerIds.map((customerId) => ({
    data: { customerId, ...currentTrace() },
    singletonKey: customerId,
  }));
  const ids = await asking.run(sql, () => sender.insert(queue, messages, { returnId: true }));
  return ids?.length ?? 0;
}

const asking = new AsyncLocalStorage<Transaction>();

/**
 * The instance of pg-boss (the job queue) that enqueues messages. It has no connection of its own: each statement runs
 * in the transaction of its caller.
 */
const sender = new PgBoss({
  db: {
    executeSql: async (text, values = []) => ({
      rows: await asking.getStore()!.unsafe(text, values as string[], prepared),
    }),
  },
  schema: queueSchema,
  migrate: false,
  supervise: false,
  schedule: false,
});

/** Query options that make the driver use prepared statements. All messages use the same few statements. */
const prepared = { prepare: true };
