import { mayBeLiteral, type Cell } from './columns.ts';
import { columnNames } from './header.ts';
import { errorsHeaders, recordHeader, type CsvLayout } from './layout.ts';
import { trimText } from '../text/fold.ts';
import type { ImportFormat } from '../schemas/imports.ts';
import { unambiguous, type DecimalMark } from './values.ts';
import { csvHeader, csvLines } from './write-records.ts';

/** The errors file is a CSV file with the records of an import that failed, or have warnings. */
export const errorsHeader = (layout: CsvLayout | null): string =>
  csvHeader([...originalColumns(layout).map(({ name }) => name), ...ownColumns], separatorOf(layout));

const ownColumns = ['_line', '_error', '_warning'];

/** Why a record was not written, or what was left out of it. */
export type Message = { error: string; warning?: undefined } | { error?: undefined; warning: string };

/** A record as its file has it. */
export interface Original {
  line: number;
  cells: readonly Cell[];
}

/**
 * Returns a record's cells, line number and message, then the cells beyond the last header, so that the record fails again
 * until somebody has corrected it.
 */
export function errorsLine(
  layout: CsvLayout | null,
  record: Original,
  { error = '', warning = '' }: Message,
  format: ImportFormat = 'csv',
): string {
  const { cells, surplus } = shownCells(layout, record, format);
  const row = [...cells, String(record.line), error, warning, ...surplus];
  return csvLines([row], row.length, separatorOf(layout));
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

export function failureOf(
  layout: CsvLayout | null,
  record: Original,
  message: Message,
  format: ImportFormat = 'csv',
): Failure {
  const { cells, surplus } = shownCells(layout, record, format);
  const texts = cells.map((cell) => (typeof cell === 'string' ? cell : cell.text));
  const named = originalColumns(layout).map(({ key }, i) => [key, texts[i]!] as const);
  const further = surplus.map((text, i) => [`Column ${layout!.headers.length + i + 1}`, text] as const);
  return {
    line: record.line,
    ...(message.error === undefined ? { warning: message.warning } : { error: message.error }),
    record: layout ? Object.fromEntries([...named, ...further]) : texts[0]!,
  };
}

/** Returns the cells of the original columns, and the texts beyond the last header. Replaces NUL characters, which few programs read. */
function shownCells(
  layout: CsvLayout | null,
  { cells }: Original,
  format: ImportFormat,
): { cells: (string | Cell)[]; surplus: string[] } {
  const further = layout ? cells.slice(layout.headers.length) : [];
  return {
    cells: originalColumns(layout).map((column) => {
      const cell = cellOf(cells[column.place], column, format);
      return typeof cell === 'string' ? shownText(cell) : { ...cell, text: shownText(cell.text) };
    }),
    surplus: further
      .slice(0, further.findLastIndex(({ text }) => trimText(text) !== '') + 1)
      .map(({ text }) => shownText(text)),
  };
}

const shownText = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

interface OriginalColumn {
  /** Its header. */
  name: string;
  /** Differs from those of all other columns. */
  key: string;
  place: number;
  /** The column is of a custom field with the type `text`. */
  isText: boolean;
  /** The column is of a custom field for which the type `number` is given. */
  isNumber: boolean;
  /** Of its numbers. */
  decimalMark: DecimalMark | null;
}

/** Of NDJSON, a single column contains the whole line. */
const lineColumn: readonly OriginalColumn[] = [
  { name: recordHeader, key: recordHeader, place: 0, isText: false, isNumber: false, decimalMark: null },
];

const known = new WeakMap<CsvLayout, readonly OriginalColumn[]>();

function originalColumns(layout: CsvLayout | null): readonly OriginalColumn[] {
  if (!layout) return lineColumn;
  const columns = known.get(layout) ?? columnsOf(layout);
  known.set(layout, columns);
  return columns;
}

function columnsOf({ headers, omitted, types, isTypeGiven, decimalMarks }: CsvLayout): OriginalColumn[] {
  const left = new Set(omitted);
  const isOmitted = ({ name, place }: OriginalColumn): boolean =>
    omitted ? left.has(place) : errorsHeaders.has(name) && name !== recordHeader;
  const keys = columnNames(headers);
  return headers
    .map((name, place) => ({
      name,
      key: keys[place]!,
      place,
      isText: types?.[place] === 'text',
      isNumber: types?.[place] === 'number' && isTypeGiven?.[place] === true,
      decimalMark: decimalMarks?.[place] ?? null,
    }))
    .filter((column) => !isOmitted(column));
}

/** As in the original. */
const separatorOf = (layout: CsvLayout | null): string => layout?.separator ?? ',';

/**
 * A quoted cell stays quoted, because the next import can read it differently without quotes. So would it read a text
 * such as `12`, if the cells that show that its column has texts are not among these records.
 */
const cellOf = (
  cell: Cell | undefined,
  { isText, isNumber, decimalMark }: OriginalColumn,
  format: ImportFormat,
): string | Cell => {
  if (!cell) return '';
  // The other cells of the column, which show its decimal mark, are not among these records.
  const mark = format === 'xlsx' && !cell.isQuoted ? '.' : decimalMark;
  if (isNumber && mark) return { ...cell, text: unambiguous(cell.text, mark) };
  return cell.isQuoted || (isText && mayBeLiteral(cell.text.trim())) ? { ...cell, isQuoted: true } : cell.text;
};
