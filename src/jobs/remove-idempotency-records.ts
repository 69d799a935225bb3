import { removeOldApprovals } from '../queries/accounts/approvals.ts';
import { removeExpiredRecords } from '../queries/records/idempotency.ts';
import { truncateJournal } from '../queries/events/retention.ts';
import { purgeActivities, purgeCompanies, purgeLists } from '../queries/crm/deleted-records.ts';
import { forgetOldMerges } from '../queries/records/merged-records.ts';
import { repeat } from './batches.ts';
import type { Handler } from './handler.ts';

/**
 * Deletes expired records, old approvals, the memory of old merges, and companies and lists that were deleted long ago, in small batches
 * that keep transactions short. Truncates what is too old of the journal.
 */
export const removeIdempotencyRecords: Handler<'remove-idempotency-records'> = async (context) => {
  const removed = await repeat(context, removeExpiredRecords);
  const forgotten = await repeat(context, forgetOldMerges);
  await repeat(context, removeOldApprovals);
  const days = context.config.HISTORY_DAYS;
  const emptied = await truncateJournal(context.db, days);
  const purged =
    (await repeat(context, (sql) => purgeActivities(sql, days))) +
    (await repeat(context, (sql) => purgeCompanies(sql, days))) +
    (await repeat(context, (sql) => purgeLists(sql, days)));
  context.log.info(
    { removed, forgotten, emptied, purged },
    'expired idempotency records, old merges, old changes and deleted records removed',
  );
};
