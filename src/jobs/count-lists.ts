import { countNextList } from '../queries/crm/list-counts.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum time of a turn, after which other customers come first. A count that has begun is completed. */
const turnSeconds = 1;
/** Delay if another worker is counting. */
const busySeconds = 5;

/** Counts the members of a customer's lists that a read of the list of lists has left. */
export const countLists: Handler<'count-lists'> = (context, { customerId }) =>
  runBatches(context, { queue: 'count-lists', customerId, seconds: turnSeconds, busySeconds }, (sql) =>
    countNextList(sql, customerId),
  );
