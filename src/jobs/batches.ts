import type { Transaction } from '../database/db.ts';
import type { BatchOutcome } from '../queries/company-settlements.ts';
import { waitForJobStarts } from '../queries/job-leases.ts';
import { enqueueTurn } from './enqueue-turn.ts';
import type { TurnKind } from './enqueue.ts';
import type { JobContext } from './handler.ts';

/** Settings of one turn: a short period in which one worker processes one customer's work in batches. */
export interface BatchTurn {
  queue: Extract<TurnKind, 'fill-lists' | 'settle-companies'>;
  customerId: string;
  /**
   * Maximum time for which a worker works for this customer now (seconds). Remaining work then waits in the queue, behind
   * other customers.
   */
  seconds: number;
  /** Seconds until a worker tries again if other workers are already processing all work of this customer. */
  busySeconds: number;
}

/**
 * Runs batches for one customer, each in its own transaction, until no work is left or the time is over. If work is
 * left, enqueues it for later.
 */
export async function runBatches(
  { db, stopping }: JobContext,
  { queue, customerId, seconds, busySeconds }: BatchTurn,
  doBatch: (sql: Transaction) => Promise<BatchOutcome>,
): Promise<void> {
  const busy = { name: 'later', seconds: busySeconds };
  const end = performance.now() + seconds * 1000;
  await db.transaction((sql) => waitForJobStarts(sql, customerId, queue));
  do {
    const outcome = await db.transaction(doBatch);
    if (outcome === 'done') return;
    if (outcome === 'busy') return db.transaction((sql) => enqueueTurn(sql, queue, customerId, busy));
  } while (!stopping.aborted && performance.now() < end);
  await db.transaction((sql) => enqueueTurn(sql, queue, customerId));
}
