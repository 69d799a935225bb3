import { mayBeLiteral, type Cell } from './columns.ts';
import { columnNames } from './header.ts';
import { errorsHeaders, addedHeaders, recordHeader, type CsvLayout } from './layout.ts';
import { toStorable, trimText } from '../text/fold.ts';
import type { ImportFailure, ImportFormat } from '../schemas/imports.ts';
import { unambiguous, type DecimalMark } from './values.ts';
import { csvHeader, csvLines } from './write-records.ts';

export type Message = { error: string; warning?: undefined } | { error?: undefined; warning: string };

interface Original {
  line: number;
  cells: readonly Cell[];
}

export interface FailedRecords {
  header: string;
  /**
   * Returns the CSV line of a record: its cells, line number and message. Cells beyond the header follow at the end.
   */
  lineOf(record: Original, message: Message): string;
  failureOf(record: Original, message: Message): ImportFailure;
}

export function failedRecords(layout: CsvLayout | null, format: ImportFormat): FailedRecords {
  const separator = layout?.separator ?? ',';
  const columns = layout ? columnsOf(layout) : lineColumn;
  const cellsOf = ({ cells }: Original): (string | Cell)[] =>
    columns.map((column) => {
      const cell = cellOf(cells[column.place], column, format);
      return typeof cell === 'string' ? toStorable(cell) : { ...cell, text: toStorable(cell.text) };
    });
  const surplusOf = ({ cells }: Original): string[] => {
    const further = layout ? cells.slice(layout.headers.length) : [];
    const end = further.findLastIndex(({ text }) => trimText(text) !== '') + 1;
    return further.slice(0, end).map(({ text }) => toStorable(text));
  };
  return {
    header: csvHeader([...columns.map(({ name }) => name), ...addedHeaders], separator),
    lineOf(record, { error = '', warning = '' }) {
      const row = [...cellsOf(record), String(record.line), error, warning, ...surplusOf(record)];
      return csvLines([row], row.length, separator);
    },
    failureOf(record, { error, warning }) {
      const texts = cellsOf(record).map((cell) => (typeof cell === 'string' ? cell : cell.text));
      const named = columns.map(({ key }, i) => [key, texts[i]!] as const);
      const further = surplusOf(record).map((text, i) => [`Column ${layout!.headers.length + i + 1}`, text] as const);
      return {
        line: record.line,
        ...(error === undefined ? { warning } : { error }),
        record: layout ? Object.fromEntries([...named, ...further]) : texts[0]!,
      };
    },
  };
}

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

/**
 * Returns a cell for the errors file, so that importing that file reads the same value. Keeps quotes, and quotes a text
 * such as `12` in a text column.
 */
const cellOf = (
  cell: Cell | undefined,
  { isText, isNumber, decimalMark }: OriginalColumn,
  format: ImportFormat,
): string | Cell => {
  if (!cell || cell.broken) return '';
  // The other cells of the column, which show its decimal mark, are not among these records.
  const mark = format === 'xlsx' && !cell.isQuoted ? '.' : decimalMark;
  if (isNumber && mark) return { ...cell, text: unambiguous(cell.text, mark) };
  return cell.isQuoted || (isText && mayBeLiteral(cell.text.trim())) ? { ...cell, isQuoted: true } : cell.text;
};
