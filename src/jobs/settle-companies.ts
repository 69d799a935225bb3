import { settleBatch } from '../queries/company-settlements.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum time that a worker spends on one customer before it serves other customers (seconds). */
const turnSeconds = 5;
/** Delay before the next attempt if another worker is already updating this customer's contacts (seconds). */
const busySeconds = 5;

/** Number of contacts in the first batch. Later batches adapt their size, up to `maxSize`. */
const firstSize = 250;
const maxSize = 2_000;
/** Target duration of one batch in milliseconds. The contacts of the batch are locked that long. */
const batchMs = 50;

/**
 * Creates the handler that updates a customer's contacts after their companies were changed or deleted. It stores its
 * progress, so a retry resumes after the last batch.
 * @param seconds maximum time for one customer; the remaining work is enqueued again
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
 * Returns the number of contacts for the next batch, so that the batch takes about `batchMs`. The result is at most
 * twice `size`, and at most `maxSize`.
 * @param size number of contacts in the last batch
 * @param tookMs duration of the last batch
 */
const nextSize = (size: number, tookMs: number): number =>
  Math.ceil(Math.min(maxSize, size * Math.min(2, Math.max(batchMs / tookMs, 0.1))));
