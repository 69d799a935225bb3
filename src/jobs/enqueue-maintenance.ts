import type { Transaction } from '../database/db.ts';
import { blockTurns } from '../queries/job-leases.ts';
import type { Fill } from '../queries/list-fills.ts';
import { enqueueOnce, type TurnKind } from './enqueue.ts';

/** The queues of customers' background work that is not stored in the table `jobs`. */
export type BatchKind = Extract<TurnKind, 'fill-lists' | 'settle-companies'>;

/**
 * Returns the queue with an empty list of job types, in the form that the queries on queues expect. The list is empty,
 * because work of these queues is not stored in the table `jobs`.
 */
export const batchTurns = (queue: BatchKind) => ({ queue, types: [] }) as const;

/**
 * Enqueues the background work that writes a list's members after its rules changed. Does nothing without `fill`. A
 * worker starts after the transaction commits. Call this at the end of the transaction.
 */
export async function enqueueListFill(sql: Transaction, fill: Fill | undefined): Promise<void> {
  if (fill) await enqueueBatches(sql, 'fill-lists', fill.customerId);
}

/**
 * Enqueues the background work that updates a customer's contacts after their companies changed. A worker starts after
 * the transaction commits. Call this at the end of the transaction.
 */
export const enqueueSettling = (sql: Transaction, customerId: string): Promise<void> =>
  enqueueBatches(sql, 'settle-companies', customerId);

/**
 * Enqueues background work for a customer. A worker starts after the transaction commits, so it sees everything that
 * the transaction wrote. Call this at the end of the transaction.
 * @param startAfter delay in seconds before a worker may start
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
