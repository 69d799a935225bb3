import { DomainError, validationFailed, type Fault } from '../errors.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { maxBatchFaults } from '../schemas/batches.ts';
import { pointerTo, tokensOf } from '../text/json-pointer.ts';
import { trimText } from '../text/trim.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import type { Cell } from './cells.ts';
import { fullNameColumn, type FileColumn } from './columns.ts';
import { invalidBytes } from './encodings.ts';
import { FileRefused } from './file-refused.ts';
import { ignoredFields, importColumn, invalidValuesOf, type ImportFile } from './import-file.ts';
import { parseCell } from './json.ts';
import { isIberian } from './layout/header-names.ts';
import { recordHeader, type CsvLayout } from './layout/layout.ts';
import { observe } from './layout/settle-layout.ts';
import { faultTexts, maxRecordBytes, type FilePosition, type RawRecord } from './raw-records.ts';
import { csvFormat, lineFormat, maxSurplus, rowFormat, type RecordFormat } from './record-formats.ts';
import { RecordScanner } from './record-scanner.ts';
import { itemOfCells, removeValue } from './records.ts';
import { textBlocks } from './text-blocks.ts';
import { quoted, ValueReader } from './values/read-value.ts';
import { readValues } from './values/values.ts';

export interface FileRecord {
  /**
   * The request body that writes the record, as in a batch: not validated, but only text that PostgreSQL can store.
   * `validation_failed` if the record cannot be converted.
   */
  item: Record<string, unknown> | DomainError;
  /** The item as far as it could be read, also if `item` is an error. */
  shown: Record<string, unknown>;
  /** The values that were left out of the item because they cannot be read. */
  warnings: Fault[];
  /** As in the file. A line of NDJSON is one cell. Empty if the record is too long. */
  original: readonly Cell[];
  /** Where the record starts, from 1. */
  line: number;
  next: FilePosition;
}

/** In one array that `readRecords` yields. */
const maxRecords = 1_000;

/**
 * Yields an import's records in arrays, from the start or from any record. If the file turns out to be unreadable, the
 * records before the problem are yielded first.
 * @param layout of a CSV file, settled; null for NDJSON
 * @param chunks of the file, from the position `from` on
 * @param from `next` of the record before; at the start, `layout.start` for CSV and `{ bytes: 0, line: 1 }` for NDJSON
 * @throws FileRefused if the file is not valid UTF-8, or if a closing quote is missing
 */
export async function* readRecords(
  file: ImportFile,
  layout: CsvLayout | null,
  chunks: AsyncIterable<Buffer>,
  from: FilePosition,
): AsyncGenerator<FileRecord[]> {
  const read = layout ? cellReader(file, layout, await ValueReader.load()) : lineReader(file);
  const footerLine = layout?.footer?.[0]?.line ?? Infinity;
  for await (const records of scan(formatOf(file, layout), chunks, from, new ItemReader(file, read))) {
    const wanted = records.filter(({ line }) => line < footerLine);
    if (wanted.length > 0) yield wanted;
    if (wanted.length < records.length) return;
  }
}

/**
 * Reads the records without their values, and notes in the layout what the cells show about the types of columns.
 * Yields and throws as `readRecords`.
 */
export async function* surveyRecords(
  file: ImportFile,
  layout: CsvLayout | null,
  chunks: AsyncIterable<Buffer>,
  from: FilePosition,
): AsyncGenerator<{ next: FilePosition }[]> {
  yield* scan(formatOf(file, layout), chunks, from, {
    expect: () => undefined,
    read(raw) {
      refuseWholeFile(file, raw);
      if (layout && raw.fault === undefined && !isHeader(raw.cells, layout.headers)) observe(file, layout, raw);
      else if (layout?.tail) layout.tail.records = [];
      return { next: raw.next };
    },
  });
}

interface RecordReader<T> {
  /** Called with each piece of the file, before its records are read. */
  expect(text: string): void;
  /** @throws FileRefused if the record's fault shows that the whole file cannot be read */
  read(raw: RawRecord): T;
}

async function* scan<T extends { next: FilePosition }>(
  format: RecordFormat,
  chunks: AsyncIterable<Buffer>,
  from: FilePosition,
  reader: RecordReader<T>,
): AsyncGenerator<T[]> {
  const scanner = new RecordScanner(format, from);
  const batch = new RecordBatch<T>(from);
  const slice = new TimeSlice();
  try {
    for await (const text of textBlocks(chunks)) {
      reader.expect(text);
      for (const raw of scanner.scan(text)) {
        batch.add(reader.read(raw));
        if (batch.isFull) yield batch.take();
        if (slice.isOver) await slice.pause();
      }
      if (slice.isOver) await slice.pause();
    }
    for (const raw of scanner.end()) batch.add(reader.read(raw));
  } catch (error) {
    if (error instanceof FileRefused && !batch.isEmpty) yield batch.take();
    throw error;
  }
  if (!batch.isEmpty) yield batch.take();
}

/** @throws FileRefused if the whole file cannot be read because of this record */
function refuseWholeFile({ format }: ImportFile, { fault, faultLine }: RawRecord): void {
  // Of NDJSON no other encoding can be named.
  const advice = format === 'ndjson' ? 'NDJSON is UTF-8: save it in this encoding' : undefined;
  if (fault === 'invalid bytes') throw invalidBytes('utf-8', faultLine, advice);
  if (fault === 'open quote') throw new FileRefused(faultTexts[fault], faultLine);
}

function formatOf({ format }: ImportFile, layout: CsvLayout | null): RecordFormat {
  if (!layout) return lineFormat;
  const { separator, headers } = layout;
  const most = headers.length + maxSurplus;
  return format === 'xlsx' ? rowFormat(most) : csvFormat(separator, most);
}

/** Collects the next array, up to a number and a size. */
class RecordBatch<T extends { next: FilePosition }> {
  #records: T[] = [];
  #start: FilePosition;

  constructor(start: FilePosition) {
    this.#start = start;
  }

  add(record: T): void {
    this.#records.push(record);
  }

  get isEmpty(): boolean {
    return this.#records.length === 0;
  }

  get isFull(): boolean {
    const bytes = (this.#records.at(-1)?.next.bytes ?? 0) - this.#start.bytes;
    return this.#records.length >= maxRecords || bytes >= maxRecordBytes;
  }

  take(): T[] {
    const records = this.#records;
    this.#records = [];
    this.#start = records.at(-1)!.next;
    return records;
  }
}

/** The record's request body, and why it cannot be written (`faults`), or what was left out (`invalid`). */
interface ReadItem {
  item: Record<string, unknown>;
  faults: Fault[];
  invalid?: Fault[];
}

/** Converts records to request bodies, or to a validation error. */
class ItemReader implements RecordReader<FileRecord> {
  readonly #file: ImportFile;
  readonly #read: (raw: RawRecord) => ReadItem;
  readonly #skipsInvalid: boolean;
  #mayBeUnstorable = false;

  constructor(file: ImportFile, read: (raw: RawRecord) => ReadItem) {
    this.#file = file;
    this.#read = read;
    this.#skipsInvalid = invalidValuesOf(file) === 'skip';
  }

  /** Notes whether a piece of the file can contain text that PostgreSQL cannot store: only then `read` looks for it. */
  expect(text: string): void {
    // JSON can write every character as an escape sequence.
    this.#mayBeUnstorable ||= text.includes('\0') || text.includes('\\');
  }

  read(raw: RawRecord): FileRecord {
    refuseWholeFile(this.#file, raw);
    const { cells: original, line, next } = raw;
    const {
      item,
      faults,
      invalid = [],
    } = raw.fault === undefined ? this.#read(raw) : recordFault(faultTexts[raw.fault]);
    const unstorable = this.#mayBeUnstorable && faults.length === 0 ? findUnstorableText(item) : [];
    const all = [...invalid, ...unstorable];
    if (!this.#skipsInvalid || unstorable.some(({ path }) => path === '')) faults.push(...all);
    else for (const { path } of unstorable) removeValue(item, tokensOf(path));
    const warnings = this.#skipsInvalid ? all : [];
    return { item: faults.length === 0 ? item : errorOf(faults), shown: item, warnings, original, line, next };
  }
}

function errorOf(faults: Fault[]): DomainError {
  const error = validationFailed(faults);
  if (faults.length <= maxBatchFaults.ofItem) return error;
  // The message counts all faults.
  return new DomainError(error.code, error.message, { faults: faults.slice(0, maxBatchFaults.ofItem) });
}

const recordFault = (message: string): ReadItem => ({ item: {}, faults: [{ path: '', message }] });

function cellReader(
  file: ImportFile,
  { headers, columns: fields, types, decimalMarks }: CsvLayout,
  values: ValueReader,
): (raw: RawRecord) => ReadItem {
  if (fields.includes(recordHeader)) return recordReader(file, fields.indexOf(recordHeader));
  const places = [...fields.keys()].filter((i) => fields[i] !== null);
  const columns = places.map((i) => {
    const column = importColumn(file.object, fields[i]!)!;
    if (column === fullNameColumn) return { ...column, hasTwoFamilyNames: isIberian(headers) };
    if (column.type !== 'custom') return column;
    const customType = types?.[i] ?? 'text';
    const type = file.format === 'xlsx' && customType === 'number' ? 'sheet number' : 'custom';
    // Layouts without marks are of earlier versions, which read `1.200` with a decimal point.
    return { ...column, type, customType, decimalMark: decimalMarks ? (decimalMarks[i] ?? undefined) : '.' } as const;
  });
  return ({ cells, cellCount, line }) => {
    if (cellCount > headers.length && (cellCount > cells.length || cells.slice(headers.length).some(isFilled)))
      return recordFault(`has more cells than the header line, which has ${headers.length}`);
    if (isHeader(cells, headers)) return recordFault('repeats the header line');
    const broken = places.flatMap((i, at) => (cells[i]?.broken ? brokenFault(columns[at]!, cells[i], i, line) : []));
    const wanted = places.map((i) => (cells[i]?.broken ? undefined : cells[i]));
    const { item: raw, faults } = itemOfCells(columns, wanted);
    const read = readValues(
      values,
      columns,
      raw,
      wanted.map((cell) => cell?.text),
    );
    return { item: read.item, faults: [], invalid: [...broken, ...faults, ...read.faults] };
  };
}

const isFilled = ({ text, broken }: Cell): boolean => broken !== undefined || trimText(text) !== '';

/** Names a cell of a sheet without a value that can be read, as spreadsheet programs do: `B7`. */
function brokenFault({ item }: FileColumn, { text, broken }: Cell, column: number, row: number): Fault {
  const what = broken === 'error' ? `the error ${quoted(text)}` : 'a formula without a stored value';
  const advice = broken === 'error' ? '' : ': open the file in a spreadsheet program and save it again';
  const path = pointerTo(item.filter((token) => token !== undefined));
  return { path, message: `the cell ${lettersOf(column)}${row} has ${what}${advice}` };
}

/** Returns e.g. `AB` for the column 27. */
const lettersOf = (column: number): string =>
  (column >= 26 ? lettersOf(Math.floor(column / 26) - 1) : '') + String.fromCharCode(65 + (column % 26));

// Files that were appended to each other contain the header line again.
const isHeader = (cells: readonly Cell[], headers: readonly string[]): boolean =>
  cells.length === headers.length && cells.every(({ text }, i) => text === headers[i] || text.trim() === headers[i]);

/** For the errors file of an NDJSON file: each record is a line of that file. */
function recordReader(file: ImportFile, place: number): (raw: RawRecord) => ReadItem {
  const read = itemOfLine(file);
  return ({ cells }) => read(cells[place]?.text ?? '');
}

function lineReader(file: ImportFile): (raw: RawRecord) => ReadItem {
  const read = itemOfLine(file);
  return ({ cells }) => read(cells[0]!.text);
}

function itemOfLine(file: ImportFile): (line: string) => ReadItem {
  const ignored = ignoredFields(file);
  return (line) => {
    const { value, fault } = parseCell(line);
    if (fault !== undefined) return recordFault(fault);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return recordFault('is not a JSON object');
    const item = value as Record<string, unknown>;
    for (const name of ignored) if (Object.hasOwn(item, name)) delete item[name];
    return { item, faults: [] };
  };
}
