import type { Transaction } from '../database/db.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { blockTurns, findNextTurn, type NextTurn } from '../queries/job-leases.ts';
import type { Fill } from '../queries/list-fills.ts';
import { sendTurn, type Delay, type TurnKind } from './enqueue.ts';

/**
 * Enqueues a message that makes a worker process the customer's work of one kind. Does nothing if the queue already
 * contains a message for the customer, because one message covers all work of the kind. Workers see the message only
 * after the transaction commits. Call this at the end of the transaction.
 * @param delay if absent, a worker may start at once
 */
export async function enqueueTurn(sql: Transaction, queue: TurnKind, customerId: string, delay?: Delay): Promise<void> {
  await blockTurns(sql, customerId, queue);
  await sendTurn(sql, queue, customerId, delay);
}

/**
 * Enqueues a message that makes a worker process the customer's next job, as soon as that job may run. Does nothing if
 * the customer has no job left.
 */
export async function enqueueNextTurn(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  await enqueueNext(sql, queue, customerId, await findNextTurn(sql, customerId, turnQueues[queue]));
}

/**
 * Enqueues a message that makes a worker process the customer's work of one kind at a later time, or now. Does nothing if
 * `next` is undefined.
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
 * Enqueues the background work that writes or removes members of a list. Call this at the end of the transaction.
 * @param fill the work to do; if undefined, nothing is enqueued
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
