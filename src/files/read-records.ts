import { DomainError, validationFailed, type Fault } from '../errors.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { maxBatchFaults } from '../schemas/batches.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import type { Cell } from './cells.ts';
import { invalidBytes } from './encodings.ts';
import { FileRefused } from './file-refused.ts';
import { ignoredFields, importColumn, type ImportFile } from './import-file.ts';
import { parseCell } from './json.ts';
import type { CsvLayout } from './layout.ts';
import { faultTexts, maxRecordBytes, type FilePosition, type RawRecord } from './raw-records.ts';
import { csvFormat, lineFormat, rowFormat, type RecordFormat } from './record-formats.ts';
import { RecordScanner } from './record-scanner.ts';
import { itemOfCells } from './records.ts';
import { textBlocks } from './text-blocks.ts';
import { ValueReader } from './values/read-value.ts';
import { readValues } from './values/values.ts';

export interface FileRecord {
  /**
   * The request body that writes the record, as in a batch: not validated, but only text that PostgreSQL can store.
   * `validation_failed` if the record cannot be converted.
   */
  item: Record<string, unknown> | DomainError;
  /** The item as far as it could be read, also if `item` is an error. */
  shown: Record<string, unknown>;
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
 * @param layout of a CSV file, from `readLayout`; null for NDJSON
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
  const scanner = new RecordScanner(formatOf(file, layout), from);
  const reader = layout
    ? new ItemReader(cellReader(file, layout, await ValueReader.load()))
    : new ItemReader(lineReader(file), 'NDJSON is UTF-8: save it in this encoding');
  const batch = new RecordBatch(from);
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

function formatOf({ format }: ImportFile, layout: CsvLayout | null): RecordFormat {
  if (!layout) return lineFormat;
  return format === 'xlsx' ? rowFormat : csvFormat(layout.separator, layout.headers.length);
}

/** Collects the next array, up to a number and a size. */
class RecordBatch {
  #records: FileRecord[] = [];
  #start: FilePosition;

  constructor(start: FilePosition) {
    this.#start = start;
  }

  add(record: FileRecord): void {
    this.#records.push(record);
  }

  get isEmpty(): boolean {
    return this.#records.length === 0;
  }

  get isFull(): boolean {
    const bytes = (this.#records.at(-1)?.next.bytes ?? 0) - this.#start.bytes;
    return this.#records.length >= maxRecords || bytes >= maxRecordBytes;
  }

  take(): FileRecord[] {
    const records = this.#records;
    this.#records = [];
    this.#start = records.at(-1)!.next;
    return records;
  }
}

/** The record's request body, or its faults. */
interface ReadItem {
  item: Record<string, unknown>;
  faults: Fault[];
}

/** Converts records to request bodies, or to a validation error. */
class ItemReader {
  readonly #read: (raw: RawRecord) => ReadItem;
  readonly #advice: string | undefined;
  #mayBeUnstorable = false;

  /** @param advice what to do about bytes that are not UTF-8, if another encoding cannot be named */
  constructor(read: (raw: RawRecord) => ReadItem, advice?: string) {
    this.#read = read;
    this.#advice = advice;
  }

  /**
   * Notes whether a piece of the file can contain text that PostgreSQL cannot store: only then `read` looks for it.
   * Call it before the piece's records are read.
   */
  expect(text: string): void {
    // JSON can write every character as an escape sequence.
    this.#mayBeUnstorable ||= text.includes('\0') || text.includes('\\');
  }

  /** @throws FileRefused if the record's fault shows that the whole file cannot be read */
  read(raw: RawRecord): FileRecord {
    const { cells: original, line, next } = raw;
    if (raw.fault === 'invalid bytes') throw invalidBytes('utf-8', raw.faultLine, this.#advice);
    if (raw.fault === 'open quote') throw new FileRefused(faultTexts[raw.fault], raw.faultLine);
    const { item, faults } = raw.fault === undefined ? this.#read(raw) : recordFault(faultTexts[raw.fault]);
    const all = this.#mayBeUnstorable && faults.length === 0 ? findUnstorableText(item) : faults;
    return { item: all.length === 0 ? item : errorOf(all), shown: item, original, line, next };
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
  { headers, columns: fields }: CsvLayout,
  values: ValueReader,
): (raw: RawRecord) => ReadItem {
  const places = [...fields.keys()].filter((i) => fields[i] !== null);
  const columns = places.map((i) => importColumn(file.object, fields[i]!)!);
  return ({ cells, cellCount }) => {
    if (cellCount > headers.length)
      return recordFault(`has more cells than the header line, which has ${headers.length}`);
    if (isHeader(cells, headers)) return recordFault('repeats the header line');
    const wanted = places.map((i) => cells[i]);
    const read = itemOfCells(columns, wanted);
    if (read.faults.length > 0) return read;
    return readValues(
      values,
      columns,
      read.item,
      wanted.map((cell) => cell?.text),
    );
  };
}

// Files that were appended to each other contain the header line again.
const isHeader = (cells: readonly Cell[], headers: readonly string[]): boolean =>
  cells.length === headers.length && cells.every(({ text }, i) => text === headers[i] || text.trim() === headers[i]);

function lineReader(file: ImportFile): (raw: RawRecord) => ReadItem {
  const ignored = ignoredFields(file);
  return ({ cells }) => {
    const { value, fault } = parseCell(cells[0]!.text);
    if (fault !== undefined) return recordFault(fault);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return recordFault('is not a JSON object');
    const item = value as Record<string, unknown>;
    for (const name of ignored) if (Object.hasOwn(item, name)) delete item[name];
    return { item, faults: [] };
  };
}
