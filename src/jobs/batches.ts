import type { Transaction } from '../database/db.ts';
import type { RunQueue, TurnKind } from '../database/queues.ts';
import { enqueueTurn, waitForNewWork, type BatchOutcome } from '../queries/records/turns.ts';
import type { JobContext } from './handler.ts';

interface BatchTurn {
  queue: Exclude<TurnKind, RunQueue>;
  customerId: string;
  /** Time limit of one call (seconds). Work that is left is enqueued again, behind that of other customers. */
  seconds: number;
  /** Seconds until a worker tries again if others are already processing all work of this customer. */
  busySeconds: number;
}

/**
 * Runs batches for one customer, each in a transaction, until the work is done or the time limit is reached. Unfinished
 * work is enqueued again.
 */
export async function runBatches(
  { db, stopping }: JobContext,
  { queue, customerId, seconds, busySeconds }: BatchTurn,
  doBatch: (sql: Transaction) => Promise<BatchOutcome>,
): Promise<void> {
  const busy = { name: 'later', seconds: busySeconds };
  const end = performance.now() + seconds * 1000;
  await db.transaction((sql) => waitForNewWork(sql, queue, customerId));
  do {
    const outcome = await db.transaction(doBatch);
    if (outcome === 'done') return;
    if (outcome === 'busy') return db.transaction((sql) => enqueueTurn(sql, queue, customerId, busy));
  } while (!stopping.aborted && performance.now() < end);
  await db.transaction((sql) => enqueueTurn(sql, queue, customerId));
}

/**
 * Runs `step` in new transactions until it returns 0 or false.
 * @returns the sum of what it returned, where true is 1
 */
export async function repeat(
  { db, stopping }: JobContext,
  step: (sql: Transaction) => Promise<number | boolean>,
): Promise<number> {
  let sum = 0;
  while (!stopping.aborted) {
    const done = Number(await db.transaction(step));
    if (done === 0) break;
    sum += done;
  }
  return sum;
}
