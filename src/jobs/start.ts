import type { Transaction } from '../db.ts';
import type { Fill } from '../queries/list-fills.ts';
import { delayTurns } from '../queries/turns.ts';
import { enqueue, enqueueOnce } from './queue.ts';

/** Has a list filled by a worker, once the transaction commits. */
export async function startFill(sql: Transaction, fill: Fill | undefined): Promise<void> {
  if (fill) await enqueue(sql, 'fill-list', { ...fill });
}

/** Turns of customers at settling the contacts of companies that changed. */
export const settlingTurns = { queue: 'settle-companies', types: [] } as const;

/**
 * Has a worker settle the contacts of the customer's companies, once the transaction commits, and not before it can see what
 * the transaction wrote. To be called at the end of the transaction.
 * @param startAfter seconds from now before which nobody comes
 */
export async function startSettling(sql: Transaction, customerId: string, startAfter = 0): Promise<void> {
  await delayTurns(sql, customerId, settlingTurns);
  // What comes later has a key of its own: it does not keep a worker from coming sooner.
  const singletonKey = startAfter > 0 ? `${customerId} later` : customerId;
  await enqueueOnce(sql, settlingTurns.queue, { customerId }, { singletonKey, startAfter });
}
