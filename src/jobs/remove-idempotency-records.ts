import { removeExpiredRecords } from '../queries/records/idempotency.ts';
import { removeOldEvents } from '../queries/events/retention.ts';
import { forgetOldMerges } from '../queries/records/merged-records.ts';
import { repeat } from './batches.ts';
import type { Handler } from './handler.ts';

/**
 * Deletes expired records, and the memory of old merges, in small batches that keep transactions short. Removes events
 * that are older than they are kept.
 */
export const removeIdempotencyRecords: Handler<'remove-idempotency-records'> = async (context) => {
  const removed = await repeat(context, removeExpiredRecords);
  const forgotten = await repeat(context, forgetOldMerges);
  const emptied = await removeOldEvents(context.db, context.config.EVENT_RETENTION_DAYS);
  context.log.info({ removed, forgotten, emptied }, 'expired idempotency records, old merges and old events removed');
};
