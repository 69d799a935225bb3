import type { Cell } from './cells.ts';
import type { CsvLayout } from './layout.ts';
import type { FileRecord } from './read-records.ts';
import { csvHeader, csvLines } from './write-records.ts';

/** The errors file is a CSV file with the failed records of an import. */
export const errorsHeader = (layout: CsvLayout | null): string =>
  csvHeader([...originalColumns(layout), '_line', '_error'], separatorOf(layout));

/**
 * Returns a failed record's cells, line number and message. Omits cells beyond the last header. Replaces NUL
 * characters, because PostgreSQL cannot store them.
 */
export function errorsLine(
  layout: CsvLayout | null,
  { original, line }: Pick<FileRecord, 'original' | 'line'>,
  message: string,
): string {
  const cells = originalColumns(layout).map((_, i) => cellOf(original[i]));
  return csvLines([[...cells, String(line), message]], cells.length + 2, separatorOf(layout)).replaceAll(
    '\0',
    '\ufffd',
  );
}

/** For NDJSON, a single column contains the whole line. */
const originalColumns = (layout: CsvLayout | null): readonly string[] => layout?.headers ?? ['_record'];

/** As in the original. */
const separatorOf = (layout: CsvLayout | null): string => layout?.separator ?? ',';

/** A quoted cell stays quoted, because the next import can read it differently without quotes. */
const cellOf = (cell: Cell | undefined): string | Cell => (cell?.isQuoted ? cell : (cell?.text ?? ''));
