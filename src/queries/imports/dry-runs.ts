import type { LockedId, Sql, Transaction } from '../../database/db.ts';
import { isAwaited } from './awaited-starts.ts';
import { clearMessages, countRepeated, dropRows } from './import-rows.ts';
import { lockNewImports } from './imports.ts';
import type { OwnedImport } from './import-retention.ts';

const keptFor = '24 hours';
/** Of one customer; the oldest go. */
const maxKept = 3;

/** Keeps the records of a dry run that ends now, and counts which values several of them have. */
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

/** Skips imports that are locked: one of these may be starting again. */
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

export const findOverdueRows = (sql: Sql, limit: number): Promise<OwnedImport[]> => sql<OwnedImport[]>`
  select customer_id, id
  from imports
  where rows_kept_until < now()
    and not ${isAwaited(sql)}
  limit ${limit}`;

/**
 * Deletes records of an import that are overdue, unless it was started again meanwhile.
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
 * Makes a dry run whose records are kept an import that waits for a worker, for real. What the first reading has learned of
 * the file stays. The caller enqueues a message.
 */
export async function restartForReal(sql: Transaction, customerId: string, id: LockedId): Promise<void> {
  await clearMessages(sql, customerId, id);
  await sql`
    update imports
    set
      status = 'PENDING',
      dry_run = false,
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
