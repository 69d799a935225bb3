import type { Transaction } from '../database/db.ts';
import { turnQueues, type TurnQueue } from '../database/queues.ts';
import { blockTurns, findNextTurn } from '../queries/job-leases.ts';
import { enqueueOnce } from './enqueue.ts';

/**
 * Enqueues work on a customer's jobs. A worker starts after the transaction commits, so it sees everything that the
 * transaction wrote. Does nothing if such a message is already waiting: one message covers all jobs of the customer.
 */
export async function enqueueTurn(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  await blockTurns(sql, customerId, { queue, types: turnQueues[queue] });
  await enqueueOnce(sql, queue, { customerId }, { singletonKey: customerId });
}

/**
 * If the customer has jobs left, enqueues work on them. The message starts at the time at which the next job can be
 * processed.
 */
export async function enqueueNextTurn(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  const next = await findNextTurn(sql, customerId, { queue, types: turnQueues[queue] });
  if (!next) return;
  if (next.seconds <= 0) return enqueueTurn(sql, queue, customerId);
  // A separate key, so that this delayed turn does not block an immediate one. One delayed turn per second is enough.
  const singletonKey = `${customerId} ${next.at}`;
  await enqueueOnce(sql, queue, { customerId }, { singletonKey, startAfter: next.seconds });
}
