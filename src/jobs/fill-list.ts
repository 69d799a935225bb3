import { fillNextBatch } from '../queries/list-fills.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum length of a turn in seconds. Then other customers get their turns. */
const turnSeconds = 1;
/** Seconds until the next attempt, when other turns are already filling all lists of this customer. */
const busySeconds = 2;

/**
 * Creates the handler that fills a customer's lists after their rules changed: it writes the members to the database,
 * batch by batch. Progress is stored on the list's row, so a retry resumes there.
 * @param seconds maximum length of a turn; another turn does the remaining work
 */
export const fillLists =
  (seconds = turnSeconds): Handler<'fill-lists'> =>
  (context, { customerId }) =>
    runBatches(context, { queue: 'fill-lists', customerId, seconds, busySeconds }, (sql) =>
      fillNextBatch(sql, customerId),
    );
