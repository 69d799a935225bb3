import type { Cell } from './cells.ts';
import type { CsvLayout } from './layout.ts';
import { csvFormat } from './record-formats.ts';
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

/** A failed record of an import, for programs. */
export interface Failure {
  /** Where the record starts in the file. */
  line: number;
  error: string;
  /** The cells by header; of NDJSON the line. */
  record: Record<string, string> | string;
}

/**
 * Reads the first records of lines that `errorsLine` wrote.
 * @param isLast true if no further text follows
 * @param most maximum number of records
 * @returns `length`: that of the text which was read
 */
export function readErrorsLines(
  layout: CsvLayout | null,
  text: string,
  { isLast, most }: { isLast: boolean; most: number },
): { failures: Failure[]; length: number } {
  const columns = originalColumns(layout);
  const format = csvFormat(separatorOf(layout), columns.length + 2);
  const failures: Failure[] = [];
  let at = 0;
  while (failures.length < most && at < text.length) {
    const { end, cells } = format.find(text, at, isLast);
    if (end === undefined) break;
    at = end;
    const texts = cells.map((cell) => cell.text);
    const [line = '', error = ''] = texts.splice(columns.length);
    const record = layout ? Object.fromEntries(texts.map((cell, i) => [columns[i]!, cell])) : texts[0]!;
    failures.push({ line: Number(line), error, record });
  }
  return { failures, length: at };
}

/** For NDJSON, a single column contains the whole line. */
const originalColumns = (layout: CsvLayout | null): readonly string[] => layout?.headers ?? ['_record'];

/** As in the original. */
const separatorOf = (layout: CsvLayout | null): string => layout?.separator ?? ',';

/** A quoted cell stays quoted, because the next import can read it differently without quotes. */
const cellOf = (cell: Cell | undefined): string | Cell => (cell?.isQuoted ? cell : (cell?.text ?? ''));
