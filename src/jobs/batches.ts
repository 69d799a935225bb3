import type { Transaction } from '../db.ts';
import type { BatchOutcome } from '../queries/company-settlements.ts';
import { awaitStarts } from '../queries/turns.ts';
import type { JobContext } from './handler.ts';
import { batchTurns, startBatches, type BatchKind } from './start.ts';

/** A customer's turn at work that is done in batches. */
export interface BatchTurn {
  queue: BatchKind;
  customerId: string;
  /** Seconds after which the rest is left to another turn, behind those of other customers. */
  seconds: number;
  /** Seconds after which a turn comes that found others at work. */
  busySeconds: number;
}

/** Does batches, each in a transaction, until nothing is left to do or the turn is over. A retry resumes after the last batch. */
export async function takeBatches(
  { db, stopping }: JobContext,
  { queue, customerId, seconds, busySeconds }: BatchTurn,
  doBatch: (sql: Transaction) => Promise<BatchOutcome>,
): Promise<void> {
  const end = performance.now() + seconds * 1000;
  await db.transaction((sql) => awaitStarts(sql, customerId, batchTurns(queue)));
  do {
    const outcome = await db.transaction(doBatch);
    if (outcome === 'done') return;
    if (outcome === 'busy') return db.transaction((sql) => startBatches(sql, queue, customerId, busySeconds));
  } while (!stopping.aborted && performance.now() < end);
  await db.transaction((sql) => startBatches(sql, queue, customerId));
}
