import { settleBatch } from '../queries/company-settlements.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum length of a turn in seconds. Then other customers get their turns. */
const turnSeconds = 5;
/** Seconds until the next attempt, when another turn of the same customer is settling. */
const busySeconds = 5;

/** Number of contacts in the first batch of a turn, and the maximum for later batches. */
const firstSize = 250;
const maxSize = 2_000;
/** Target duration of a batch in milliseconds. Its contacts stay locked that long. */
const batchMs = 50;

/**
 * Creates the handler that settles the contacts of a customer's changed and deleted companies, batch by batch. Progress
 * is stored with the settlement, so a retry resumes there.
 * @param seconds maximum length of a turn; another turn does the remaining work
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

/** Returns the number of contacts for the next batch, from the duration of the last one. At most doubles the size. */
const nextSize = (size: number, tookMs: number): number =>
  Math.ceil(Math.min(maxSize, size * Math.min(2, Math.max(batchMs / tookMs, 0.1))));
