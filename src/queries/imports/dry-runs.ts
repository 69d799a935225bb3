import type { LockedId, Sql, Transaction } from '../../database/db.ts';
import { deleteFile } from './import-files.ts';
import { lockNewImports } from './imports.ts';
import type { OwnedImport } from './import-retention.ts';

const keptFor = '24 hours';
/** Of one customer; the oldest go. */
const maxKept = 3;

/** Keeps the file of a dry run that ends now. */
export async function keepFile(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await sql`
    update imports
    set file_kept_until = (select clock_timestamp()) + ${keptFor}::interval
    where customer_id = ${customerId}
      and id = ${id}`;
  await lockNewImports(sql, customerId);
  for (const other of await findSurplusFiles(sql, customerId)) await dropKeptFile(sql, customerId, other);
}

/** Skips imports that are locked: one of these may be starting again. */
async function findSurplusFiles(sql: Transaction, customerId: string): Promise<LockedId[]> {
  const kept = await sql<{ id: string }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and file_kept_until is not null
    order by file_kept_until desc, id desc`;
  const surplus = kept.slice(maxKept).map(({ id }) => id);
  if (surplus.length === 0) return [];
  const locked = await sql<{ id: LockedId }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and id = any(${surplus}::uuid[])
      and file_kept_until is not null
    for no key update skip locked`;
  return locked.map(({ id }) => id);
}

/** Deletes the file that was kept of a dry run. */
async function dropKeptFile(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await sql`
    update imports
    set file_kept_until = null
    where customer_id = ${customerId}
      and id = ${id}`;
  await deleteFile(sql, customerId, id);
}

export const findOverdueFiles = (sql: Sql, limit: number): Promise<OwnedImport[]> => sql<OwnedImport[]>`
  select customer_id, id
  from imports
  where file_kept_until < now()
  limit ${limit}`;

/** Deletes the file of a dry run, unless it was started again meanwhile. */
export async function dropOverdueFile(sql: Transaction, customerId: string, id: string): Promise<void> {
  const [overdue] = await sql<{ id: LockedId }[]>`
    select id
    from imports
    where customer_id = ${customerId}
      and id = ${id}
      and file_kept_until < now()
    for no key update`;
  if (overdue) await dropKeptFile(sql, customerId, overdue.id);
}

/**
 * Makes a dry run whose file is kept an import that waits for a worker, for real. What the first reading has learned of
 * the file stays. The caller enqueues a message.
 */
export async function restartForReal(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await sql`
    delete from import_errors
    where customer_id = ${customerId}
      and import_id = ${id}`;
  await sql`
    update imports
    set
      status = 'PENDING',
      dry_run = false,
      file_kept_until = null,
      position = null,
      created = 0,
      updated = 0,
      unchanged = 0,
      failed = 0,
      warnings = 0,
      failures = 0,
      served_at = (select clock_timestamp()),
      started_at = null,
      finished_at = null,
      purged_at = null
    where customer_id = ${customerId}
      and id = ${id}`;
}
