import { fillNextBatch } from '../queries/memberships/list-fills.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum time that a worker spends on one customer before it serves other customers (seconds). */
const turnSeconds = 1;
/** Delay before the next attempt if other workers are already filling all lists of this customer (seconds). */
const busySeconds = 2;

/**
 * Creates the job handler that writes the members of a customer's contact lists to the database after the lists' rules
 * changed. Progress is stored after each batch, so a retry resumes there.
 * @param seconds Time limit for one call of the handler. Unfinished work is enqueued again.
 */
export const fillLists =
  (seconds = turnSeconds): Handler<'fill-lists'> =>
  (context, { customerId }) =>
    runBatches(context, { queue: 'fill-lists', customerId, seconds, busySeconds }, (sql) =>
      fillNextBatch(sql, customerId),
    );
