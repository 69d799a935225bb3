import { stringify } from 'csv-stringify/sync';
import type { ExportFormat, FileFormat } from '../schemas/files.ts';
import { writeCell, type Cell } from './cells.ts';
import type { FileColumn } from './columns.ts';
import { itemOfRecord, valueOf } from './records.ts';
import { xlsxBytes } from './write-xlsx.ts';

export interface RecordWriter {
  /** The header line of a CSV file. */
  readonly head: string;
  write(records: readonly object[]): string;
}

export const recordWriter = (format: FileFormat, columns: readonly FileColumn[]): RecordWriter =>
  format === 'csv' ? csvWriter(columns) : ndjsonWriter(columns);

/** Called after each page of records was written to a file. */
type OnPage = (page: object[]) => void;

/**
 * Returns a file with records, in pieces.
 * @param title what the file holds, such as `Contacts`; for formats that can say it
 */
export const fileOf = (
  { format, columns, title }: { format: ExportFormat; columns: readonly FileColumn[]; title: string },
  pages: AsyncIterable<object[]>,
  onPage?: OnPage,
): AsyncGenerator<string | Buffer> =>
  format === 'xlsx' ? xlsxBytes(columns, title, pages, onPage) : fileText(recordWriter(format, columns), pages, onPage);

/** So a piece of a file's text is small even if every record is large. */
const pieceRecords = 50;

/** Yields a file's text in pieces. */
export async function* fileText(
  writer: RecordWriter,
  pages: AsyncIterable<object[]>,
  onPage?: OnPage,
): AsyncGenerator<string> {
  if (writer.head !== '') yield writer.head;
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += pieceRecords) yield writer.write(page.slice(at, at + pieceRecords));
    onPage?.(page);
  }
}

const ndjsonWriter = (columns: readonly FileColumn[]): RecordWriter => ({
  head: '',
  write: (records) =>
    records.map((record) => `${JSON.stringify(itemOfRecord(columns, record as Record<string, unknown>))}\n`).join(''),
});

const csvWriter = (columns: readonly FileColumn[]): RecordWriter => ({
  head: csvHeader(columns.map(({ header }) => header)),
  write: (records) =>
    csvLines(
      records.map((record) => rowOf(columns, record as Record<string, unknown>)),
      columns.length,
    ),
});

export const csvHeader = (names: readonly string[], separator = ','): string =>
  csvLines(
    [names.map((name) => (mustBeQuoted.test(name) ? { text: name, isQuoted: true } : name))],
    names.length,
    separator,
  );

/** Names that must be quoted in a header line: they contain a possible separator, or white space at an end. */
const mustBeQuoted = /[,;\t|]|^\s|\s$/;

/** @param width number of cells in each row */
export const csvLines = (rows: (string | Cell)[][], width: number, separator = ','): string =>
  stringify(rows, {
    delimiter: separator,
    record_delimiter: 'windows',
    // Many readers take a single LF or CR as the end of a record, too.
    quote_record_delimiter: true,
    cast: { object: ({ text }) => ({ value: text as string, quoted: true }) },
    // Of one empty cell alone, the line would be blank, and readers skip blank lines.
    quoted_empty: width === 1,
    quoted_match: width === 1 ? /^\s+$/ : null,
  });

/** A cell that must be quoted is a `Cell`, any other a string. */
const rowOf = (columns: readonly FileColumn[], record: Record<string, unknown>): (string | Cell)[] =>
  columns.map((column) => {
    const cell = writeCell(column.type, valueOf(column, record));
    return cell.isQuoted ? cell : cell.text;
  });
