import type { Locked, LockedId, Queryable, Transaction } from '../../database/db.ts';
import type { EventActor } from '../../schemas/events/types.ts';
import { settingColumns, type ImportSettings } from './imports.ts';

export interface ImportPosition {
  /** Offset in the uncompressed file. */
  bytes: number;
  /** Line at this offset, from 1. */
  line: number;
}

export interface ImportRow extends ImportSettings {
  type: 'import';
  customer_id: string;
  id: string;
  upload: string;
  file_bytes: number;
  /** Columns of a CSV file. Null for NDJSON, and until the header has been read. */
  layout: object | null;
  /** Where the next record starts; null at the beginning. */
  position: ImportPosition | null;
  counted: number;
  /** Records in the file. Null until the first pass, which counts them, has ended; the second writes them. */
  total: number | null;
  warnings: number;
  /** Unexpected errors in a row. */
  failures: number;
  /** Who made the import. Null for imports from before 1.1.0. */
  actor: EventActor | null;
}

export const importColumns = (sql: Queryable) => sql`
  'import' as type, customer_id, id, upload, file_bytes, layout, position, counted, total, warnings, failures, actor,
  ${settingColumns(sql)}`;

/** Saves the progress of the first pass. */
export async function saveReading(
  sql: Transaction,
  customerId: string,
  { id, layout, position, counted }: Locked<Pick<ImportRow, 'layout' | 'position' | 'counted'>>,
): Promise<void> {
  await sql`
    update imports
    set
      layout = ${layout ? sql.json(layout as never) : null},
      position = ${position ? sql.json({ ...position }) : null},
      counted = ${counted},
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}`;
}

/** Saves the total, so that the second pass can start. */
export async function endReading(
  sql: Transaction,
  customerId: string,
  { id, layout, counted }: Locked<Pick<ImportRow, 'layout' | 'counted'>>,
): Promise<void> {
  await saveReading(sql, customerId, { id, layout, position: null, counted });
  await sql`
    update imports
    set total = counted
    where customer_id = ${customerId}
      and id = ${id}`;
}

export interface ImportCounts {
  created: number;
  updated: number;
  unchanged: number;
  failed: number;
  /** Of those that did not fail, how many have warnings. */
  warnings: number;
}

/**
 * Adds newly processed records, and saves where the next one starts.
 * @returns how many were processed so far
 */
export async function saveWritten(
  sql: Transaction,
  customerId: string,
  id: LockedId,
  position: ImportPosition,
  { created, updated, unchanged, failed, warnings }: ImportCounts,
): Promise<number> {
  const [row] = await sql<[{ processed: number }]>`
    update imports
    set
      position = ${sql.json({ ...position })},
      created = created + ${created},
      updated = updated + ${updated},
      unchanged = unchanged + ${unchanged},
      failed = failed + ${failed},
      warnings = warnings + ${warnings},
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}
    returning created + updated + unchanged + failed as processed`;
  return row.processed;
}
