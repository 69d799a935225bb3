import type { Sql, Transaction, Locked, LockedId } from '../../database/db.ts';
import { isAwaited, deleteRows, clearMessages, countRepeated, dropRows, isLacking, maxDeleted } from './import-rows.ts';
import { conflict } from '../../errors.ts';
import type { CsvLayout } from '../../files/layout.ts';
import { allImports, createImport, endImport, lockImport, lockNewImports, secondMark } from './imports.ts';
import type { ImportState } from './imports.ts';
import { invalidValuesOf } from '../../files/encodings.ts';

/**
 * Period after the end of an import in which its failed records are stored (SQL interval). Callers can read them for 30
 * days. A download can take an hour more.
 */
const retention = '30 days 2 hours';
/** Time after which an import that waits for its file or its start is cancelled (SQL interval). */
const cancelWaitingAfter = '24 hours';

const batchSize = 10_000;

interface OwnedImport {
  customer_id: string;
  id: string;
}

export const findExpiredImports = (sql: Sql, limit: number): Promise<OwnedImport[]> => sql`
  select customer_id, id
  from imports
  where finished_at is null
    and status in ('UPLOADING', 'UPLOADED')
    and coalesce(due_at, created_at) < now() - ${cancelWaitingAfter}::interval
    and not ${isAwaited(sql)}
  limit ${limit}`;

/**
 * Cancels an import that still waits for its file or its start.
 * @returns true if it was cancelled
 */
export async function expireImport(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const { id: locked, status } = await lockImport(sql, customerId, id, allImports);
  const isWaiting = status === 'UPLOADING' || status === 'UPLOADED';
  if (isWaiting) await endImport(sql, customerId, locked, { status: 'CANCELLED' });
  return isWaiting;
}

/**
 * Deletes a batch of the failed records of an import whose retention period is over. Keeps the import.
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

const keptFor = '24 hours';
const maxKept = 3;

/**
 * Keeps the records of a dry run that ends, and counts the match values that several records have. Deletes the records
 * of the oldest dry runs above `maxKept`.
 */
export async function keepRows(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await sql`
    update imports
    set
      rows_kept_until = (select clock_timestamp()) + ${keptFor}::interval,
      repeated = ${await countRepeated(sql, customerId, id)}
    where customer_id = ${customerId}
      and id = ${id}`;
  await lockNewImports(sql, customerId);
  for (const other of await findSurplus(sql, customerId)) await dropRows(sql, customerId, other);
}

/**
 * Locks and returns the oldest dry runs above `maxKept`. Skips those that another transaction has locked, because it
 * may be restarting them.
 */
async function findSurplus(sql: Transaction, customerId: string): Promise<LockedId[]> {
  const kept = await sql<{ id: string }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and rows_kept_until is not null
      and not ${isAwaited(sql, undefined, customerId)}
    order by rows_kept_until desc, id desc`;
  const surplus = kept.slice(maxKept).map(({ id }) => id);
  if (surplus.length === 0) return [];
  const locked = await sql<{ id: LockedId }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and id = any(${surplus}::uuid[])
      and rows_kept_until is not null
    for no key update skip locked`;
  return locked.map(({ id }) => id);
}

export const findOverdueRows = (sql: Sql, limit: number): Promise<OwnedImport[]> => sql`
  select customer_id, id
  from imports
  where rows_kept_until < now()
    and not ${isAwaited(sql)}
  limit ${limit}`;

/**
 * Deletes records of a dry run that were kept long enough, unless the import was started again meanwhile.
 * @returns true if some are left
 */
export async function dropOverdueRows(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const [overdue] = await sql<{ id: LockedId }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and id = ${id}
      and rows_kept_until < now()
    for no key update`;
  return overdue !== undefined && dropRows(sql, customerId, overdue.id);
}

/**
 * Begins a dry run again whose file and records are kept. `PENDING`: for real; the caller enqueues a message. `UPLOADED`:
 * it waits for its start, so that its settings can change.
 */
export async function beginAgain(
  sql: Transaction,
  customerId: string,
  id: LockedId,
  status: 'PENDING' | 'UPLOADED',
): Promise<void> {
  const isRead = status === 'PENDING';
  // Before the file is read again, its old records are deleted.
  if (isRead) await clearMessages(sql, customerId, id);
  await sql`
    update imports
    set
      status = ${status},
      dry_run = ${!isRead},
      layout = case when ${isRead} then layout end,
      total = case when ${isRead} then total end,
      rows_kept_until = null,
      done_line = 0,
      created = 0,
      updated = 0,
      unchanged = 0,
      failed = 0,
      warnings = 0,
      failures = 0,
      attempt = attempt + 1,
      due_at = (select clock_timestamp()),
      started_at = null,
      finished_at = null,
      purged_at = null,
      changes = '[]',
      repeated = null
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Creates an import that waits for a worker, of the records which another one has left out because they lack the field by
 * which it finds stored ones. It reads them in the same way. The caller enqueues a message.
 * @returns its id; undefined if there are no such records
 * @throws DomainError `conflict` if they are more than one statement can copy
 */
export async function createSecondImport(
  sql: Transaction,
  customerId: string,
  first: Locked<ImportState>,
): Promise<string | undefined> {
  const second = await createImport(sql, customerId, {
    ...first,
    mapping: first.mapping ?? {},
    invalid_values: invalidValuesOf(first),
    header: first.has_header,
    mode: 'create',
    match: null,
    dry_run: false,
    fingerprint: secondMark(first.id),
  });
  const { count: total } = await sql`
    insert into import_rows (customer_id, import_id, line, cells)
    select customer_id, ${second}::uuid, line, cells
    from import_rows
    where customer_id = ${customerId}
      and import_id = ${first.id}
      ${isLacking(sql, first.match!)}
    limit ${maxDeleted + 1}`;
  if (total > maxDeleted)
    throw conflict('These records are too many: upload the file again, to create all of it as new');
  // Its footer and its columns without a field are told with the first import.
  const { footer: _footer, omitted: _omitted, ...layout } = { ...(first.layout as CsvLayout | null) };
  await sql`
    update imports
    set
      status = 'PENDING',
      due_at = (select clock_timestamp()),
      file_bytes = ${first.file_bytes},
      line_count = ${first.line_count},
      found_encoding = ${first.found_encoding},
      has_mark = ${first.has_mark},
      layout = ${first.layout ? sql.json(layout as never) : null},
      total = ${total}
    where customer_id = ${customerId}
      and id = ${second}`;
  return total > 0 ? second : undefined;
}
