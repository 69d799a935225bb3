import type { Cell } from './cells.ts';
import type { CsvLayout } from './layout.ts';
import type { FileRecord } from './read-records.ts';
import { csvHeader, csvLines } from './write-records.ts';

/** Returns the header line of the errors file: a CSV file with the failed records of an import. */
export const errorsHeader = (layout: CsvLayout | null): string =>
  csvHeader([...originalColumns(layout), '_line', '_error']);

/**
 * Returns the line of the errors file for one failed record: the record's cells, its line number and its error message.
 * Omits cells beyond the last header. Replaces NUL characters, because PostgreSQL cannot store them.
 */
export function errorsLine(
  layout: CsvLayout | null,
  { original, line }: Pick<FileRecord, 'original' | 'line'>,
  message: string,
): string {
  const cells = originalColumns(layout).map((_, i) => cellOf(original[i]));
  return csvLines([[...cells, String(line), message]], cells.length + 2).replaceAll('\0', '\ufffd');
}

/**
 * Returns the column names for the cells of the original record. For an NDJSON file, a single column contains the whole
 * line.
 */
const originalColumns = (layout: CsvLayout | null): readonly string[] => layout?.headers ?? ['_record'];

/**
 * Converts a cell of a failed record for the CSV writer. A quoted cell stays quoted, because the next import of the
 * file can read the cell differently without quotes.
 */
const cellOf = (cell: Cell | undefined): string | Cell => (cell?.isQuoted ? cell : (cell?.text ?? ''));
