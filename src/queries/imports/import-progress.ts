import type { Locked, LockedId, Queryable, Transaction } from '../../database/db.ts';
import type { ImportChange } from '../../schemas/imports.ts';
import type { EventActor } from '../../schemas/events/types.ts';
import { deleteFile } from './import-files.ts';
import { settingColumns, type ImportSettings } from './imports.ts';

export interface ImportRow extends ImportSettings {
  type: 'import';
  customer_id: string;
  id: string;
  upload: string;
  file_bytes: number;
  /** Columns of a CSV file. Null for NDJSON, and until the header has been read. */
  layout: object | null;
  /** Where the last record that was written starts; 0 at the beginning. */
  done_line: number;
  /** Records in the file. Null until all of them are rows, which can be written. */
  total: number | null;
  warnings: number;
  /** Of a dry run: how many records are in `changes`. */
  told: number;
  /** Unexpected errors in a row. */
  failures: number;
  /** Who made the import. Null for imports from before 1.1.0. */
  actor: EventActor | null;
  /** The request that created the import, for the log. */
  request_id: string | null;
}

export const importColumns = (sql: Queryable) => sql`
  'import' as type, customer_id, id, upload, file_bytes, layout, done_line, total, warnings, failures, actor,
  request_id, jsonb_array_length(changes) as told,
  ${settingColumns(sql)}`;

/** All records of the file are stored as rows, so they can be written. Deletes the file. */
export async function endReading(
  sql: Transaction,
  customerId: string,
  { id, layout, total }: Locked<Pick<ImportRow, 'layout' | 'total'>>,
): Promise<void> {
  await sql`
    update imports
    set layout = ${layout ? sql.json(layout as never) : null}, total = ${total}, failures = 0
    where customer_id = ${customerId}
      and id = ${id}`;
  await deleteFile(sql, customerId, id);
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
 * Adds newly processed records, and saves the line of the last one.
 * @returns how many were processed so far
 */
export async function saveWritten(
  sql: Transaction,
  customerId: string,
  id: LockedId,
  {
    line,
    created,
    updated,
    unchanged,
    failed,
    warnings,
    changes = [],
  }: ImportCounts & {
    line: number;
    /** What a dry run would change. */
    changes?: readonly ImportChange[] | undefined;
  },
): Promise<number> {
  const [row] = await sql<[{ processed: number }]>`
    update imports
    set
      done_line = ${line},
      created = created + ${created},
      updated = updated + ${updated},
      unchanged = unchanged + ${unchanged},
      failed = failed + ${failed},
      warnings = warnings + ${warnings},
      ${changes.length > 0 ? sql`changes = changes || ${sql.json(changes as never)},` : sql``}
      failures = 0
    where customer_id = ${customerId}
      and id = ${id}
    returning created + updated + unchanged + failed as processed`;
  return row.processed;
}
