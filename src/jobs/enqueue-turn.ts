import type { Transaction } from '../database/db.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { blockTurns, findNextTurn } from '../queries/job-leases.ts';
import { enqueueOnce } from './enqueue.ts';

/**
 * Enqueues a turn at the customer's jobs. The turn runs after the transaction commits and sees everything that the
 * transaction wrote. Does nothing if a turn already waits: one turn finds all jobs of the customer.
 */
export async function enqueueTurn(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  await blockTurns(sql, customerId, { queue, types: turnQueues[queue] });
  await enqueueOnce(sql, queue, { customerId }, { singletonKey: customerId });
}

/** Enqueues the customer's next turn for the time at which a job can be processed, if the customer has a job left. */
export async function enqueueNextTurn(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  const next = await findNextTurn(sql, customerId, { queue, types: turnQueues[queue] });
  if (!next) return;
  if (next.seconds <= 0) return enqueueTurn(sql, queue, customerId);
  // A separate key, so that this delayed turn does not block an immediate one. One delayed turn per second is enough.
  const singletonKey = `${customerId} ${next.at}`;
  await enqueueOnce(sql, queue, { customerId }, { singletonKey, startAfter: next.seconds });
}
