import { settleBatch } from '../queries/memberships/company-settlements.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

const turnSeconds = 5;
/** Delay if another worker is already updating this customer's contacts. */
const busySeconds = 5;

/** Contacts in the first batch. The size of later ones adapts to the measured duration, up to `maxSize`. */
const firstSize = 250;
const maxSize = 2_000;
/** Target duration of one batch, which locks its contacts until it ends. */
const batchMs = 50;

/**
 * Updates a customer's contacts after their companies were changed or deleted. Progress is stored after each batch, so
 * a retry resumes there.
 * @param seconds time limit of one call; unfinished work is enqueued again
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
 * Returns the size of a batch that takes about `batchMs`: at most twice `size`, and at most `maxSize`.
 * @param size of the last batch
 * @param tookMs duration of the last batch
 */
const nextSize = (size: number, tookMs: number): number =>
  Math.ceil(Math.min(maxSize, size * Math.min(2, Math.max(batchMs / tookMs, 0.1))));
