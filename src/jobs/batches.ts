import type { Transaction } from '../database/db.ts';
import type { BatchOutcome } from '../queries/company-settlements.ts';
import { waitForJobStarts } from '../queries/job-leases.ts';
import { batchTurns, enqueueBatches, type BatchKind } from './enqueue-maintenance.ts';
import type { JobContext } from './handler.ts';

/** One turn of a customer at work that is done in batches: its queue and its time limits. */
export interface BatchTurn {
  queue: BatchKind;
  customerId: string;
  /** Seconds after which the turn ends and enqueues another one, behind the turns of other customers. */
  seconds: number;
  /** Delay in seconds of the next turn when other workers are already processing all of this customer's work. */
  busySeconds: number;
}

/**
 * Runs batches, each in its own transaction, until no work is left or the turn's time is over. In the second case it
 * enqueues the next turn. A retry resumes after the last committed batch.
 */
export async function runBatches(
  { db, stopping }: JobContext,
  { queue, customerId, seconds, busySeconds }: BatchTurn,
  doBatch: (sql: Transaction) => Promise<BatchOutcome>,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  await db.transaction((sql) => waitForJobStarts(sql, customerId, batchTurns(queue)));
  do {
    const outcome = await db.transaction(doBatch);
    if (outcome === 'done') return;
    if (outcome === 'busy') return db.transaction((sql) => enqueueBatches(sql, queue, customerId, busySeconds));
  } while (!stopping.aborted && performance.now() < end);
  await db.transaction((sql) => enqueueBatches(sql, queue, customerId));
}
