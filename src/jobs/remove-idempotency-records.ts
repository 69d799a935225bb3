import { removeExpiredRecords } from '../queries/records/idempotency.ts';
import { removeOldEvents } from '../queries/events/retention.ts';
import { forgetOldMerges } from '../queries/records/merged-records.ts';
import type { Transaction } from '../database/db.ts';
import type { Handler, JobContext } from './handler.ts';

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

/**
 * Runs `step` in new transactions until it returns 0.
 * @returns the sum of what it returned
 */
async function repeat({ db, stopping }: JobContext, step: (sql: Transaction) => Promise<number>): Promise<number> {
  let sum = 0;
  for (let some = -1; some !== 0 && !stopping.aborted; sum += Math.max(0, some)) some = await db.transaction(step);
  return sum;
}
