import { settleBatch } from '../queries/company-settlements.ts';
import { takeBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Seconds after which other customers come before the rest. */
const turnSeconds = 5;
/** Seconds that a turn waits for another one of the same customer. */
const busySeconds = 5;

/** Contacts of the first batch of a turn, and of the largest. */
const firstSize = 250;
const largestSize = 2_000;
/** Milliseconds that a batch should take: as long its contacts are locked. */
const batchMs = 50;

/**
 * Settles contacts of a customer's companies that were changed or deleted, batch by batch. Progress is stored with the
 * settlement, so a retry resumes there.
 * @param seconds after which the rest is left to another turn
 */
export const settleCompanies =
  (seconds = turnSeconds): Handler<'settle-companies'> =>
  (context, { customerId }) => {
    let size = firstSize;
    return takeBatches(context, { queue: 'settle-companies', customerId, seconds, busySeconds }, async (sql) => {
      const begun = performance.now();
      const outcome = await settleBatch(sql, customerId, size);
      size = nextSize(size, performance.now() - begun);
      return outcome;
    });
  };

/** How many contacts can be settled in time, judged by a batch before; at most twice as many as in that. */
const nextSize = (size: number, tookMs: number): number =>
  Math.ceil(Math.min(largestSize, size * Math.min(2, Math.max(batchMs / tookMs, 0.1))));
