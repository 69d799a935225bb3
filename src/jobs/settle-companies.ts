import { settleBatch } from '../queries/memberships/company-settlements.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum time that a worker spends on one customer before it serves other customers (seconds). */
const turnSeconds = 5;
/** Delay before the next attempt if another worker is already updating this customer's contacts (seconds). */
const busySeconds = 5;

/**
 * Number of contacts in the first batch. The size of later batches adapts to the measured duration, up to `maxSize`.
 */
const firstSize = 250;
const maxSize = 2_000;
/** Target duration of one batch (ms). A batch locks its contacts until it ends. */
const batchMs = 50;

/**
 * Creates the job handler that updates a customer's contacts after their companies were changed or deleted. Progress is
 * stored after each batch, so a retry resumes there.
 * @param seconds Time limit for one call of the handler. Unfinished work is enqueued again.
 */
export const settleCompanies =
  (seconds = turnSeconds): Handler<'settle-companies'> =>
  (context, { customerId }) => {
    let size = firstSize;
    return runBatches(context, { queue: 'settle-companies', customerId, seconds, busySeconds }, async (sql) => {
      const begun = performance.now();
      const outcome = await settleBatch(sql, customerId, size);
      size = nextSize(size, performance.now() - begun);
      return outcome;
    });
  };

/**
 * Returns the number of contacts in the next batch, chosen so that the batch takes about `batchMs`. The result is at
 * most twice `size`, and at most `maxSize`.
 * @param size Number of contacts in the last batch.
 * @param tookMs Duration of the last batch (ms).
 */
const nextSize = (size: number, tookMs: number): number =>
  Math.ceil(Math.min(maxSize, size * Math.min(2, Math.max(batchMs / tookMs, 0.1))));
