import { fillNextBatch } from '../queries/list-fills.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum time that a worker spends on one customer before it serves other customers (seconds). */
const turnSeconds = 1;
/** Delay before the next attempt if other workers are already filling all lists of this customer (seconds). */
const busySeconds = 2;

/**
 * Creates the handler that writes the members of a customer's lists to the database after the lists' rules changed. It
 * stores its progress, so a retry resumes after the last batch.
 * @param seconds maximum time for one customer; the remaining work is enqueued again
 */
export const fillLists =
  (seconds = turnSeconds): Handler<'fill-lists'> =>
  (context, { customerId }) =>
    runBatches(context, { queue: 'fill-lists', customerId, seconds, busySeconds }, (sql) =>
      fillNextBatch(sql, customerId),
    );
