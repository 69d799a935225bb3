import { countNextDuplicates } from '../queries/crm/duplicate-counts.ts';
import { runBatches } from './batches.ts';
import type { Handler } from './handler.ts';

/** Maximum time of a turn, after which other customers come first. A count that has begun is completed. */
const turnSeconds = 1;
/** Delay if another worker is counting this customer's duplicates. */
const busySeconds = 5;

export const countDuplicates: Handler<'count-duplicates'> = (context, { customerId }) =>
  runBatches(context, { queue: 'count-duplicates', customerId, seconds: turnSeconds, busySeconds }, (sql) =>
    countNextDuplicates(sql, customerId),
  );
