import type { Cell } from './cells.ts';
import type { CsvLayout } from './layout.ts';
import type { FileRecord } from './read-records.ts';
import { csvHeader, csvLines } from './write-records.ts';

/** Returns the header line of the CSV file that lists the failed records of an import. */
export const errorsHeader = (layout: CsvLayout | null): string =>
  csvHeader([...originalColumns(layout), '_line', '_error']);

/**
 * Returns the line of the file of failed records for one record: its original cells, its line, and the error. Cells for
 * which the header line has no column are left out. NUL characters, which PostgreSQL cannot store, are replaced.
 */
export function errorsLine(
  layout: CsvLayout | null,
  { original, line }: Pick<FileRecord, 'original' | 'line'>,
  message: string,
): string {
  const cells = originalColumns(layout).map((_, i) => cellOf(original[i]));
  return csvLines([[...cells, String(line), message]], cells.length + 2).replaceAll('\0', '\ufffd');
}

/** The names of the columns with the original record. Of an NDJSON file, one column has the whole line. */
const originalColumns = (layout: CsvLayout | null): readonly string[] => layout?.headers ?? ['_record'];

/** Keeps quotes, because they decide what a cell means when the corrected record is imported again. */
const cellOf = (cell: Cell | undefined): string | Cell => (cell?.isQuoted ? cell : (cell?.text ?? ''));
