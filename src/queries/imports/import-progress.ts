import type { Sql, Transaction } from '../../database/db.ts';
import { settingColumns, type ImportSettings } from './imports.ts';

/** The position of a record in the file of an import. */
export interface ImportPosition {
  /** Offset in the uncompressed file (bytes). */
  bytes: number;
  /** Line number at this offset. The first line is 1. */
  line: number;
}

/** An import, with the data that a worker needs to process it. */
export interface ImportRow extends ImportSettings {
  type: 'import';
  customer_id: string;
  id: string;
  upload: string;
  file_bytes: number;
  /** The columns of a CSV file. Null for NDJSON, and for CSV until the header has been read. */
  layout: object | null;
  /** Where the next record starts; null at the beginning of the file. */
  position: ImportPosition | null;
  /** Number of records that the first pass over the file has counted so far. */
  counted: number;
  /**
   * Number of records in the file. Null until the first pass, which counts the records, has ended. The second pass
   * writes the records.
   */
  total: number | null;
  /** Number of unexpected errors in a row. */
  failures: number;
}

/** The columns of `ImportRow` in SQL. */
export const importColumns = (sql: Sql | Transaction) => sql`
  'import' as type, customer_id, id, upload, file_bytes, layout, position, counted, total, failures,
  ${settingColumns(sql)}`;

/**
 * Saves the progress of the first pass over an import's file, which counts the records. The caller must have locked the
 * import.
 */
export async function saveReading(
  sql: Transaction,
  customerId: string,
  { id, layout, position, counted }: Pick<ImportRow, 'id' | 'layout' | 'position' | 'counted'>,
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

/**
 * Ends the first pass over an import's file, which counts the records, and saves the total. The second pass, which
 * writes the records, can then start. The caller must have locked the import.
 */
export async function endReading(
  sql: Transaction,
  customerId: string,
  { id, layout, counted }: Pick<ImportRow, 'id' | 'layout' | 'counted'>,
): Promise<void> {
  await saveReading(sql, customerId, { id, layout, position: null, counted });
  await sql`
    update imports
    set total = counted
    where customer_id = ${customerId}
      and id = ${id}`;
}

/** Numbers of records that an import has processed, by outcome. */
export interface ImportCounts {
  created: number;
  updated: number;
  unchanged: number;
  failed: number;
}

/**
 * Adds the numbers of newly processed records to an import, and saves the position of the next record in the file. The
 * caller must have locked the import.
 * @returns the number of records processed so far
 */
export async function saveWritten(
  sql: Transaction,
  customerId: string,
  id: string,
  position: ImportPosition,
  { created, updated, unchanged, failed }: ImportCounts,
): Promise<number> {
  const [row] = await sql<[{ processed: number }]>`
    update imports
    set
      position = ${sql.json({ ...position })},
      created = created + ${created},
      updated = updated + ${updated},
      unchanged = unchanged + ${unchanged},
      failed = failed + ${failed},
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}
    returning created + updated + unchanged + failed as processed`;
  return row.processed;
}
