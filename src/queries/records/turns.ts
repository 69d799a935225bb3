import { AsyncLocalStorage } from 'node:async_hooks';
import { PgBoss } from 'pg-boss';
import type { Transaction } from '../../database/db.ts';
import { queueSchema, turnKinds, type TurnKind } from '../../database/queues.ts';
import type { TraceContext } from '../../tracing/spans.ts';
import { currentTrace } from '../../tracing/tracing.ts';

/**
 * The content of the message for a turn. If tracing is on, it also contains the trace context of the request or job that
 * enqueued it.
 */
export interface Turn extends TraceContext {
  customerId: string;
}

/**
 * The result of one batch of background work for a customer: `more` if work may remain, `done` if no work is left,
 * `busy` if another worker is doing the work.
 */
export type BatchOutcome = 'more' | 'done' | 'busy';

interface Delay {
  seconds: number;
  /** Deduplication key: the queue keeps at most one delayed message for each customer and name. */
  name: string;
}

/**
 * Enqueues a turn of a customer. Runs in the caller's transaction: workers see the message after the commit, and a
 * rollback removes it.
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
 * Makes workers wait until this transaction, which creates work for them, has ended. Otherwise a worker could consume
 * the customer's only queue message before the new work is visible, and no message would remain for this work.
 */
async function blockTurns(sql: Transaction, queue: TurnKind, customerId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${turnsLock(sql, queue, customerId)})`;
}

/**
 * Waits until all transactions that are creating work of this customer have ended. The next statement of this
 * transaction sees the new work.
 */
export async function waitForNewWork(sql: Transaction, queue: TurnKind, customerId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${turnsLock(sql, queue, customerId)})`;
}

const turnsLock = (sql: Transaction, queue: TurnKind, customerId: string) =>
  sql`hashtextextended(${`turns:${queue}:${customerId}`}, 0)`;

/**
 * Enqueues a turn of a customer who has new work. Does nothing if such a message already waits. Workers see the message after the transaction commits, and until then
 * they wait with other work of this customer and queue. So call this late: after it, only `reserveCredits`, whose lock
 * comes last in every transaction.
 * @param delay Delay before a worker may process the message. Default: no delay.
 */
export async function enqueueTurn(sql: Transaction, queue: TurnKind, customerId: string, delay?: Delay): Promise<void> {
  await blockTurns(sql, queue, customerId);
  await sendTurn(sql, queue, customerId, delay);
}

/** Enqueues a turn for a customer in each queue. Used after a suspension, in which workers dropped the turns. */
export async function enqueueAllTurns(sql: Transaction, customerId: string): Promise<void> {
  for (const queue of turnKinds) await enqueueTurn(sql, queue, customerId);
}

/**
 * Enqueues a turn for each of these customers. Skips those whose message waits in the queue.
 * @param urgent Customers whose turns come before those of all others.
 * @returns The number of messages enqueued.
 */
export async function enqueueTurns(
  sql: Transaction,
  queue: TurnKind,
  customerIds: string[],
  urgent: ReadonlySet<string> = new Set(),
): Promise<number> {
  const messages = customerIds.map((customerId) => ({
    data: { customerId, ...currentTrace() },
    singletonKey: customerId,
    priority: urgent.has(customerId) ? 1 : 0,
  }));
  const ids = await callersTransaction.run(sql, () => sender.insert(queue, messages, { returnId: true }));
  return ids?.length ?? 0;
}

const callersTransaction = new AsyncLocalStorage<Transaction>();

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
