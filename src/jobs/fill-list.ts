import { fillNextBatch } from '../queries/list-fills.ts';
import { takeBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Seconds after which other customers come before the rest. */
const turnSeconds = 1;
/** Seconds that a turn waits for other turns of the same customer that fill all lists there are to fill. */
const busySeconds = 2;

/**
 * Writes down who is in the lists whose rules have changed, batch by batch. Progress is stored on the list's row, so a retry
 * resumes there.
 * @param seconds after which the rest is left to another turn
 */
export const fillLists =
  (seconds = turnSeconds): Handler<'fill-lists'> =>
  (context, { customerId }) =>
    takeBatches(context, { queue: 'fill-lists', customerId, seconds, busySeconds }, (sql) =>
      fillNextBatch(sql, customerId),
    );
