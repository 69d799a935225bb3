import { removeExpiredRecords } from '../queries/records/idempotency.ts';
import type { Handler } from './handler.ts';

/** Deletes expired records in small batches that keep transactions short. */
export const removeIdempotencyRecords: Handler<'remove-idempotency-records'> = async ({ db, log, stopping }) => {
  let removed = 0;
  for (let some = -1; some !== 0 && !stopping.aborted; removed += some)
    some = await db.transaction(removeExpiredRecords);
  log.info({ removed }, 'expired idempotency records removed');
};
