import { mayBeLiteral, type Cell } from './cells.ts';
import { columnNames } from './layout/column-names.ts';
import { recordHeader, type CsvLayout } from './layout/layout.ts';
import { csvFormat } from './record-formats.ts';
import type { FileRecord } from './read-records.ts';
import { csvHeader, csvLines } from './write-records.ts';

/** The errors file is a CSV file with the records of an import that failed, or have warnings. */
export const errorsHeader = (layout: CsvLayout | null): string =>
  csvHeader([...originalColumns(layout).map(({ name }) => name), ...ownColumns], separatorOf(layout));

const ownColumns = ['_line', '_error', '_warning'];

/** Why a record was not written, or what was left out of it. */
export type Message = { error: string; warning?: undefined } | { error?: undefined; warning: string };

/**
 * Returns a record's cells, line number and message. Omits cells beyond the last header. Replaces NUL characters,
 * because PostgreSQL cannot store them.
 */
export function errorsLine(
  layout: CsvLayout | null,
  { original, line }: Pick<FileRecord, 'original' | 'line'>,
  { error = '', warning = '' }: Message,
): string {
  const cells = originalColumns(layout).map(({ place, isText }) => cellOf(original[place], isText));
  const row = [...cells, String(line), error, warning];
  return csvLines([row], row.length, separatorOf(layout)).replaceAll('\0', '\ufffd');
}

/** A record of an import that failed, or has warnings, for programs. */
export interface Failure {
  /** Where the record starts in the file. */
  line: number;
  error?: string;
  warning?: string;
  /** The cells by header (see `columnNames`); of NDJSON the line. */
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
  const format = csvFormat(separatorOf(layout), columns.length + ownColumns.length);
  const failures: Failure[] = [];
  let at = 0;
  while (failures.length < most && at < text.length) {
    const { end, cells } = format.find(text, at, isLast);
    if (end === undefined) break;
    at = end;
    const texts = cells.map((cell) => cell.text);
    const [line = '', error = '', warning = ''] = texts.splice(columns.length);
    const record = layout ? Object.fromEntries(texts.map((cell, i) => [columns[i]!.key, cell])) : texts[0]!;
    failures.push({
      line: Number(line),
      ...(error === '' ? {} : { error }),
      ...(warning === '' ? {} : { warning }),
      record,
    });
  }
  return { failures, length: at };
}

interface OriginalColumn {
  /** Its header. */
  name: string;
  /** Differs from those of all other columns. */
  key: string;
  place: number;
  /** The column is of a custom field with the type `text`. */
  isText: boolean;
}

/** Of NDJSON, a single column contains the whole line. */
const lineColumn: readonly OriginalColumn[] = [{ name: recordHeader, key: recordHeader, place: 0, isText: false }];

const known = new WeakMap<CsvLayout, readonly OriginalColumn[]>();

function originalColumns(layout: CsvLayout | null): readonly OriginalColumn[] {
  if (!layout) return lineColumn;
  const columns = known.get(layout) ?? columnsOf(layout);
  known.set(layout, columns);
  return columns;
}

function columnsOf({ headers, omitted, types }: CsvLayout): OriginalColumn[] {
  const left = new Set(omitted);
  const isOmitted = ({ name, place }: OriginalColumn): boolean =>
    omitted ? left.has(place) : name.startsWith('_') && name !== recordHeader;
  const keys = columnNames(headers);
  return headers
    .map((name, place) => ({ name, key: keys[place]!, place, isText: types?.[place] === 'text' }))
    .filter((column) => !isOmitted(column));
}

/** As in the original. */
const separatorOf = (layout: CsvLayout | null): string => layout?.separator ?? ',';

/**
 * A quoted cell stays quoted, because the next import can read it differently without quotes. So would it read a text
 * such as `12`, if the cells that show that its column has texts are not among these records.
 */
const cellOf = (cell: Cell | undefined, isText: boolean): string | Cell => {
  if (!cell) return '';
  return cell.isQuoted || (isText && mayBeLiteral(cell.text.trim())) ? { ...cell, isQuoted: true } : cell.text;
};
