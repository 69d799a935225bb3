import type { Transaction } from '../database/db.ts';
import type { RunQueue, TurnKind } from '../database/queues.ts';
import { enqueueTurn, mergeTurns } from '../queries/records/turns.ts';
import type { Handler, JobContext } from './handler.ts';

/** Maximum time of a turn of such work (ms), after which other customers come first. A batch that has begun is completed. */
const turnMs = 1_000;

/**
 * Creates a handler that runs batches for one customer, each in a transaction, until the work is done or the time limit is
 * reached. Unfinished work is enqueued again, behind that of other customers.
 * @param doBatch returns false if no work was left
 */
export const runBatches =
  (
    queue: Exclude<TurnKind, RunQueue>,
    doBatch: (sql: Transaction, customerId: string) => Promise<boolean>,
  ): Handler<TurnKind> =>
  async ({ db, stopping }, { customerId }) => {
    const end = performance.now() + turnMs;
    const batch = () =>
      db.transaction(async (sql) => {
        await mergeTurns(sql, queue, customerId);
        return doBatch(sql, customerId);
      });
    while (await batch())
      if (stopping.aborted || performance.now() >= end)
        return db.transaction((sql) => enqueueTurn(sql, queue, customerId));
  };

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
