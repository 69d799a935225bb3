import type { Transaction } from '../db.ts';
import type { Fill } from '../queries/list-fills.ts';
import { delayTurns } from '../queries/turns.ts';
import { enqueueOnce, type TurnKind } from './queue.ts';

/** Kinds of turns whose work is not described by rows of `jobs`. */
export type BatchKind = Extract<TurnKind, 'fill-lists' | 'settle-companies'>;

/** The turns of such a kind. */
export const batchTurns = (queue: BatchKind) => ({ queue, types: [] }) as const;

/** Has a worker fill a list, once the transaction commits. To be called at the end of the transaction. */
export async function startFill(sql: Transaction, fill: Fill | undefined): Promise<void> {
  if (fill) await startBatches(sql, 'fill-lists', fill.customerId);
}

/**
 * Has a worker settle the contacts of the customer's companies, once the transaction commits. To be called at the end of the
 * transaction.
 */
export const startSettling = (sql: Transaction, customerId: string): Promise<void> =>
  startBatches(sql, 'settle-companies', customerId);

/**
 * Has a worker take a turn of the customer, once the transaction commits, and not before it can see what the transaction
 * wrote. To be called at the end of the transaction.
 * @param startAfter seconds from now before which nobody comes
 */
export async function startBatches(
  sql: Transaction,
  queue: BatchKind,
  customerId: string,
  startAfter = 0,
): Promise<void> {
  await delayTurns(sql, customerId, batchTurns(queue));
  // What comes later has a key of its own: it does not keep a worker from coming sooner.
  const singletonKey = startAfter > 0 ? `${customerId} later` : customerId;
  await enqueueOnce(sql, queue, { customerId }, { singletonKey, startAfter });
}
