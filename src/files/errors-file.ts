import { mayBeLiteral, type Cell } from './columns.ts';
import { columnNames } from './header.ts';
import { errorsHeaders, recordHeader, type CsvLayout } from './layout.ts';
import { trimText } from '../text/fold.ts';
import type { ImportFormat } from '../schemas/imports.ts';
import { unambiguous, type DecimalMark } from './values.ts';
import { csvHeader, csvLines } from './write-records.ts';

/** Returns the header of the errors file. This CSV file has the records of an import that failed or have warnings. */
export const errorsHeader = (layout: CsvLayout | null): string =>
  csvHeader([...originalColumns(layout).map(({ name }) => name), ...ownColumns], separatorOf(layout));

const ownColumns = ['_line', '_error', '_warning'];

export type Message = { error: string; warning?: undefined } | { error?: undefined; warning: string };

export interface Original {
  line: number;
  cells: readonly Cell[];
}

/**
 * Returns the cells, line number and message of a record. The surplus cells follow, so that the record fails again
 * until somebody corrects it.
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

export interface Failure {
  line: number;
  error?: string;
  warning?: string;
  /** The cells by header (see `columnNames`), or the line of an NDJSON file. */
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

/**
 * Returns the cells of the original columns, and the surplus texts. Replaces NUL characters, because few programs can
 * read them.
 */
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
  name: string;
  key: string;
  place: number;
  isText: boolean;
  isNumber: boolean;
  decimalMark: DecimalMark | null;
}

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

const separatorOf = (layout: CsvLayout | null): string => layout?.separator ?? ',';

/**
 * Keeps the quotes of a cell, because the next import can read an unquoted cell differently. Also quotes a text such as
 * `12` in a text column: the cells that show the column's type may be missing from this file.
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
