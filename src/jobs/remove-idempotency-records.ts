import { removeExpiredRecords } from '../queries/records/idempotency.ts';
import { removeOldEvents } from '../queries/events/retention.ts';
import { purgeCompanies, purgeLists } from '../queries/crm/deleted-records.ts';
import { forgetOldMerges } from '../queries/records/merged-records.ts';
import { repeat } from './batches.ts';
import type { Handler } from './handler.ts';

/**
 * Deletes expired records, the memory of old merges, and companies and lists that were deleted long ago, in small batches
 * that keep transactions short. Removes events that are older than they are kept.
 */
export const removeIdempotencyRecords: Handler<'remove-idempotency-records'> = async (context) => {
  const removed = await repeat(context, removeExpiredRecords);
  const forgotten = await repeat(context, forgetOldMerges);
  const emptied = await removeOldEvents(context.db, context.config.EVENT_RETENTION_DAYS);
  const days = context.config.HISTORY_DAYS;
  const purged =
    (await repeat(context, (sql) => purgeCompanies(sql, days))) +
    (await repeat(context, (sql) => purgeLists(sql, days)));
  context.log.info(
    { removed, forgotten, emptied, purged },
    'expired idempotency records, old merges, old events and deleted records removed',
  );
};
