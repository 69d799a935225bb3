import type { Sql, Transaction } from '../../database/db.ts';
import { isAwaited } from './awaited-starts.ts';
import { deleteRows } from './import-rows.ts';
import { allImports, endImport, lockImport } from './imports.ts';

/**
 * How long failed records are stored after the import's end. They can be read for 30 days. A download that begins
 * before that takes at most an hour, and must not lose records that it has not read yet.
 */
const retention = '30 days 2 hours';
/** How long an import waits for its file, or for its start, before it is cancelled. */
const patience = '24 hours';

/** Records that one transaction deletes. */
const batchSize = 10_000;

export interface OwnedImport {
  customer_id: string;
  id: string;
}

export const findExpiredImports = (sql: Sql, limit: number): Promise<OwnedImport[]> => sql<OwnedImport[]>`
  select customer_id, id
  from imports
  where finished_at is null
    and status in ('UPLOADING', 'UPLOADED')
    and created_at < now() - ${patience}::interval
    and not ${isAwaited(sql)}
  limit ${limit}`;

/**
 * Cancels an import and deletes its file, if it still waits for its file or its start.
 * @returns true if it was cancelled
 */
export async function expireImport(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const { id: locked, status } = await lockImport(sql, customerId, id, allImports);
  const isWaiting = status === 'UPLOADING' || status === 'UPLOADED';
  if (isWaiting) await endImport(sql, customerId, locked, { status: 'CANCELLED' });
  return isWaiting;
}

/**
 * Deletes a batch of failed records of one import that can no longer be read. The import is kept.
 * @returns false if there was nothing to delete
 */
export async function purgeEndedImport(sql: Transaction): Promise<boolean> {
  const [ended] = await sql<OwnedImport[]>`
    select customer_id, id
    from imports
    where finished_at <= (select clock_timestamp()) - ${retention}::interval
      and purged_at is null
    order by finished_at
    limit 1`;
  if (!ended) return false;
  const count = await deleteRows(sql, ended.customer_id, ended.id, { limit: batchSize });
  if (count === batchSize) return true;
  await sql`
    update imports
    set purged_at = (select clock_timestamp()), changes = '[]'
    where customer_id = ${ended.customer_id}
      and id = ${ended.id}`;
  return true;
}
