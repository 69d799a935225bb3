import { stringify } from 'csv-stringify/sync';
import type { FileFormat } from '../schemas/files.ts';
import { writeCell, type Cell } from './cells.ts';
import type { FileColumn } from './columns.ts';
import { itemOfRecord, valueOf } from './records.ts';

/** Converts records to the text of a file. */
export interface RecordWriter {
  /** The beginning of the file: the header line of a CSV file. */
  readonly head: string;
  /** Returns the text of the given records, as lines of the file. */
  write(records: readonly object[]): string;
}

/** Creates the writer for a file format. */
export const recordWriter = (format: FileFormat, columns: readonly FileColumn[]): RecordWriter =>
  format === 'csv' ? csvWriter(columns) : ndjsonWriter(columns);

/** Maximum number of records in one piece of the text of a file. So a piece is small even if every record is large. */
const pieceRecords = 50;

/**
 * Yields the text of a file that contains the given records, in pieces.
 * @param pages The records, in arrays.
 * @param onPage Callback that is called after the text of each array was consumed.
 */
export async function* fileText(
  writer: RecordWriter,
  pages: AsyncIterable<object[]>,
  onPage?: (page: object[]) => void,
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
  head: csvHeader(columns.map(({ name }) => name)),
  write: (records) =>
    csvLines(
      records.map((record) => rowOf(columns, record as Record<string, unknown>)),
      columns.length,
    ),
});

/** Returns the header line of a CSV file. */
export const csvHeader = (names: readonly string[]): string =>
  csvLines([names.map((name) => (mustBeQuoted.test(name) ? { text: name, isQuoted: true } : name))], names.length);

/**
 * Matches names that must be quoted in a header line: names that contain a possible separator, or begin or end with
 * white space.
 */
const mustBeQuoted = /[;\t]|^\s|\s$/;

/**
 * Converts rows to lines of a CSV file.
 * @param width The number of cells in each row.
 */
export const csvLines = (rows: (string | Cell)[][], width: number): string =>
  stringify(rows, {
    record_delimiter: 'windows',
    // Many readers take a single LF or CR as the end of a record, too.
    quote_record_delimiter: true,
    cast: { object: ({ text }) => ({ value: text as string, quoted: true }) },
    // Of one empty cell alone, the line would be blank, and readers skip blank lines.
    quoted_empty: width === 1,
    quoted_match: width === 1 ? /^\s+$/ : null,
  });

/** Converts a record to a CSV row. A cell that must be quoted is a `Cell` object, any other cell is a string. */
const rowOf = (columns: readonly FileColumn[], record: Record<string, unknown>): (string | Cell)[] =>
  columns.map((column) => {
    const cell = writeCell(column.type, valueOf(column, record));
    return cell.isQuoted ? cell : cell.text;
  });
