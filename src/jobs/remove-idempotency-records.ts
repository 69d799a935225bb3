import { removeExpiredRecords } from '../queries/idempotency.ts';
import type { Handler } from './handler.ts';

/** Removes what is kept under Idempotency-Keys past its time, some at once, so that no lock and no transaction is long. */
export const removeIdempotencyRecords: Handler<'remove-idempotency-records'> = async ({ db, log, stopping }) => {
  let removed = 0;
  for (let some = -1; some !== 0 && !stopping.aborted; removed += some)
    some = await db.transaction(removeExpiredRecords);
  log.info({ removed }, 'expired idempotency records removed');
};
