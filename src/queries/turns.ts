import { AsyncLocalStorage } from 'node:async_hooks';
import { PgBoss } from 'pg-boss';
import type { Transaction } from '../database/db.ts';
import { queueSchema, turnQueues, type JobKind, type TurnQueue } from '../database/queues.ts';
import type { TraceContext } from '../tracing/spans.ts';
import { currentTrace } from '../tracing/tracing.ts';
import { blockTurns, findNextTurn, type NextTurn } from './job-leases.ts';

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

/**
 * The result of one batch of background work for a customer: `more` if work may remain, `done` if no work is left,
 * `busy` if another worker is doing the work.
 */
export type BatchOutcome = 'more' | 'done' | 'busy';

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
 * Enqueues a message that makes a worker process waiting work of a customer in one queue for a short period (a turn).
 * Does nothing if such a message already waits. Workers see the message after the transaction commits, and until then
 * they wait with other work of this customer and queue. So call this late: after it, only `reserveCredits`, whose lock
 * comes last in every transaction.
 * @param delay Delay before a worker may process the message. Default: no delay.
 */
export async function enqueueTurn(sql: Transaction, queue: TurnKind, customerId: string, delay?: Delay): Promise<void> {
  await blockTurns(sql, customerId, queue);
  await sendTurn(sql, queue, customerId, delay);
}

/**
 * Enqueues a message for the customer's next job in one queue. Workers get the message when the job may run. Does
 * nothing if no job is left.
 * @param least Minimum number of seconds before workers get the message.
 */
export async function enqueueNextTurn(
  sql: Transaction,
  queue: TurnQueue,
  customerId: string,
  least = 0,
): Promise<void> {
  await enqueueNext(sql, queue, customerId, await findNextTurn(sql, customerId, turnQueues[queue], least));
}

/**
 * Minimum number of seconds before the next turn of a customer if a turn found no job to take. A job that is due then is
 * locked by a transaction, such as that of a worker whose lease has expired while it stores results. Without this pause,
 * turns would follow each other without end until that transaction ends.
 */
export const pauseAfterNothing = 1;

/**
 * Enqueues a message that makes a worker process waiting work of a customer in one queue.
 * @param next When a worker may process the message. If undefined, nothing is enqueued.
 */
export async function enqueueNext(
  sql: Transaction,
  queue: TurnKind,
  customerId: string,
  next: NextTurn | undefined,
): Promise<void> {
  if (!next) return;
  if (next.seconds <= 0) return enqueueTurn(sql, queue, customerId);
  // Named by its time: one delayed turn per second is enough.
  await sendTurn(sql, queue, customerId, { name: String(next.at), seconds: next.seconds });
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
