import type { Transaction } from '../database/db.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { blockTurns, findNextTurn, type NextTurn } from '../queries/job-leases.ts';
import type { Fill } from '../queries/list-fills.ts';
import { sendTurn, type Delay, type TurnKind } from './enqueue.ts';

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
 * Enqueues the background work that writes or removes the members of a contact list. Call this at the end of the
 * transaction.
 * @param fill The list whose members must be written or removed. If undefined, nothing is enqueued.
 */
export async function enqueueListFill(sql: Transaction, fill: Fill | undefined): Promise<void> {
  if (fill) await enqueueTurn(sql, 'fill-lists', fill.customerId);
}

/**
 * Enqueues the background work that updates a customer's contacts after their companies changed. Call this at the end
 * of the transaction.
 */
export const enqueueSettling = (sql: Transaction, customerId: string): Promise<void> =>
  enqueueTurn(sql, 'settle-companies', customerId);
