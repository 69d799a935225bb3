import type { Transaction } from '../database/db.ts';
import { blockTurns } from '../queries/job-leases.ts';
import type { Fill } from '../queries/list-fills.ts';
import { enqueueOnce, type TurnKind } from './enqueue.ts';

/** Kinds of turns whose work is not stored in the table `jobs`. */
export type BatchKind = Extract<TurnKind, 'fill-lists' | 'settle-companies'>;

/**
 * Returns the turn kind of a batch queue. Its list of job types is empty, because its work is not stored in the table
 * `jobs`.
 */
export const batchTurns = (queue: BatchKind) => ({ queue, types: [] }) as const;

/**
 * Enqueues a turn that fills a list, if there is one to fill. The turn runs after the transaction commits. Call this at
 * the end of the transaction.
 */
export async function enqueueListFill(sql: Transaction, fill: Fill | undefined): Promise<void> {
  if (fill) await enqueueBatches(sql, 'fill-lists', fill.customerId);
}

/**
 * Enqueues a turn that settles the contacts of the customer's changed companies. The turn runs after the transaction
 * commits. Call this at the end of the transaction.
 */
export const enqueueSettling = (sql: Transaction, customerId: string): Promise<void> =>
  enqueueBatches(sql, 'settle-companies', customerId);

/**
 * Enqueues a turn of the customer. The turn runs after the transaction commits and sees everything that the transaction
 * wrote. Call this at the end of the transaction.
 * @param startAfter delay in seconds before a worker may take the turn
 */
export async function enqueueBatches(
  sql: Transaction,
  queue: BatchKind,
  customerId: string,
  startAfter = 0,
): Promise<void> {
  await blockTurns(sql, customerId, batchTurns(queue));
  // A delayed turn has a separate key, so that it does not block an immediate one.
  const singletonKey = startAfter > 0 ? `${customerId} later` : customerId;
  await enqueueOnce(sql, queue, { customerId }, { singletonKey, startAfter });
}
