import type { Transaction } from '../db.ts';
import { turnQueues, type TurnQueue } from '../queues.ts';
import { delayTurns, findNextTurn } from '../queries/turns.ts';
import { enqueueOnce } from './queue.ts';

/**
 * Has a worker take a turn at the customer's jobs, once the transaction commits, and not before it can see what the
 * transaction wrote. A turn that is waited for already is enough: customers are served one after the other.
 */
export async function wake(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  await delayTurns(sql, customerId, { queue, types: turnQueues[queue] });
  await enqueueOnce(sql, queue, { customerId }, { singletonKey: customerId });
}

/** Has the customer's next turn taken as soon as there is something to do, if there will be. */
export async function wakeForRest(sql: Transaction, queue: TurnQueue, customerId: string): Promise<void> {
  const next = await findNextTurn(sql, customerId, { queue, types: turnQueues[queue] });
  if (!next) return;
  if (next.seconds <= 0) return wake(sql, queue, customerId);
  // A key of its own, so that it does not keep a turn from being taken sooner; one a second is enough.
  const singletonKey = `${customerId} ${next.at}`;
  await enqueueOnce(sql, queue, { customerId }, { singletonKey, startAfter: next.seconds });
}
