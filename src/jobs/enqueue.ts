import { AsyncLocalStorage } from 'node:async_hooks';
import { PgBoss } from 'pg-boss';
import type { Transaction } from '../database/db.ts';
import { queueSchema, type JobKind } from '../database/queues.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { currentTrace } from '../tracing/tracing.ts';

/**
 * The content of a queue message that makes a worker process one customer's jobs for a short period (a turn). If
 * tracing is on, the message also contains the trace context of the request or job that enqueued it.
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

/**
 * The kinds of jobs that are processed in turns. A turn is a short period in which one worker processes one customer's
 * jobs.
 */
export type TurnKind = { [K in JobKind]: JobPayloads[K] extends Turn ? K : never }[JobKind];

/** A delay before a turn may start. */
export interface Delay {
  seconds: number;
  /** Deduplication key: the queue keeps at most one delayed message for each customer and name. */
  name: string;
}

/**
 * Enqueues a message that makes a worker process one customer's jobs for a short period (a turn). Runs in the caller's
 * transaction: workers see the message after the commit, and a rollback removes the message.
 * @param delay Delay before a worker may process the message. Default: no delay.
 * @returns False if such a message already waits in the queue. Nothing is enqueued then. Messages that a worker has
 * taken, or that wait for another time, do not count.
 */
export async function sendTurn(sql: Transaction, queue: TurnKind, customerId: string, delay?: Delay): Promise<boolean> {
  // A delayed turn has another key, so that it does not block a turn that may start at once.
  const options = delay
    ? { singletonKey: `${customerId} ${delay.name}`, startAfter: delay.seconds }
    : { singletonKey: customerId };
  return (
    (await callersTransaction.run(sql, () => sender.send(queue, { customerId, ...currentTrace() }, options))) !== null
  );
}

/**
 * Enqueues one message for each of these customers. The message makes a worker process the customer's jobs for a short
 * period (a turn). Skips customers that already have such a message in the queue.
 * @returns The number of messages enqueued.
 */
export async function enqueueTurns(sql: Transaction, queue: TurnKind, customerIds: string[]): Promise<number> {
  const messages = customerIds.map((customerId) => ({
    data: { customerId, ...currentTrace() },
    singletonKey: customerId,
  }));
  const ids = await callersTransaction.run(sql, () => sender.insert(queue, messages, { returnId: true }));
  return ids?.length ?? 0;
}

/** The transaction in which `sender` executes its statements. */
const callersTransaction = new AsyncLocalStorage<Transaction>();

/** The pg-boss (job queue) client that enqueues messages. All its SQL statements run in the caller's transaction. */
const sender = new PgBoss({
  db: {
    executeSql: async (text, values = []) => ({
      rows: await callersTransaction.getStore()!.unsafe(text, values as string[], prepared),
    }),
  },
  schema: queueSchema,
  migrate: false,
  supervise: false,
  schedule: false,
});

/** Query options that make the database driver use prepared statements, because the same few statements run often. */
const prepared = { prepare: true };
