import { fillNextBatch } from '../queries/memberships/list-fills.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

const turnSeconds = 1;
/** Delay if other workers are already filling all lists of this customer. */
const busySeconds = 2;

/**
 * Writes the members of a customer's lists after their rules changed. Progress is stored after each batch, so a retry
 * resumes there.
 * @param seconds time limit of one call; unfinished work is enqueued again
 */
export const fillLists =
  (seconds = turnSeconds): Handler<'fill-lists'> =>
  (context, { customerId }) =>
    runBatches(context, { queue: 'fill-lists', customerId, seconds, busySeconds }, (sql) =>
      fillNextBatch(sql, customerId),
    );
