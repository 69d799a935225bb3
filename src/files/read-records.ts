import { DomainError, validationFailed, type Fault } from '../errors.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { maxBatchFaults } from '../schemas/batches.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import type { Cell } from './cells.ts';
import { FileRefused } from './file-refused.ts';
import { ignoredFields, importColumn, type ImportFile } from './import-file.ts';
import { parseJson } from './json.ts';
import type { CsvLayout } from './layout.ts';
import { faultTexts, maxRecordBytes, type FilePosition, type RawRecord } from './raw-records.ts';
import { csvFormat, lineFormat } from './record-formats.ts';
import { RecordScanner } from './record-scanner.ts';
import { itemOfCells } from './records.ts';
import { textBlocks } from './text-blocks.ts';

/** One record of an import's file. */
export interface FileRecord {
  /**
   * The request body that creates or changes the record, as in a batch request. It is not validated yet, but contains
   * only text that PostgreSQL can store. If the record cannot be converted: the error `validation_failed`.
   */
  item: Record<string, unknown> | DomainError;
  /**
   * The cells of the record as they are in the file. A line of an NDJSON file is one cell. Empty if the record is too
   * long.
   */
  original: readonly Cell[];
  /** Number of the line where the record starts. The first line of the file is 1. */
  line: number;
  /** Where the next record starts. */
  next: FilePosition;
}

/** Maximum number of records in one array that `readRecords` yields. */
const maxRecords = 1_000;

/**
 * Reads the records of an import's file, and yields them in arrays. Can start at the beginning of the file or, to
 * resume, after any record. If the file is found to be unreadable, all records before the problem are yielded first.
 * @param layout The header line and columns of a CSV file, as `readLayout` returned them. Null for an NDJSON file.
 * @param chunks The content of the file, starting at the position `from`.
 * @param from Position of the first record to read: `next` of the record before. At the beginning of the file,
 * `layout.start` for CSV and `{ bytes: 0, line: 1 }` for NDJSON.
 * @throws FileRefused if the file is not valid UTF-8, or if a closing quote is missing.
 */
export async function* readRecords(
  file: ImportFile,
  layout: CsvLayout | null,
  chunks: AsyncIterable<Buffer>,
  from: FilePosition,
): AsyncGenerator<FileRecord[]> {
  const scanner = new RecordScanner(layout ? csvFormat(layout.separator, layout.headers.length) : lineFormat, from);
  const reader = new ItemReader(layout ? cellReader(file, layout) : lineReader(file));
  const batch = new Batch(from);
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

/** Collects the records of the next array that `readRecords` yields. Limits their number and their total size. */
class Batch {
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

/**
 * The result of converting a record: the request body for creating or changing the record (`item`), or the faults of
 * the record.
 */
interface ReadItem {
  item: Record<string, unknown>;
  faults: Fault[];
}

/** Converts records of a file to request bodies. A record that cannot be converted gets a validation error instead. */
class ItemReader {
  readonly #read: (raw: RawRecord) => ReadItem;
  #mayBeUnstorable = false;

  constructor(read: (raw: RawRecord) => ReadItem) {
    this.#read = read;
  }

  /**
   * Remembers whether the file can contain text that PostgreSQL cannot store. `read` checks records for such text only
   * if the file can contain it. Call this for each piece of the file before its records are read.
   */
  expect(text: string): void {
    // JSON can write every character as an escape sequence.
    this.#mayBeUnstorable ||= text.includes('\0') || text.includes('\\');
  }

  /** @throws FileRefused if the record's fault shows that the whole file cannot be read. */
  read(raw: RawRecord): FileRecord {
    const { cells: original, line, next } = raw;
    if (raw.fault === 'open quote' || raw.fault === 'invalid bytes')
      throw new FileRefused(faultTexts[raw.fault], raw.faultLine);
    return { item: this.#itemOf(raw), original, line, next };
  }

  #itemOf(raw: RawRecord): Record<string, unknown> | DomainError {
    const { item, faults } = raw.fault === undefined ? this.#read(raw) : recordFault(faultTexts[raw.fault]);
    const all = this.#mayBeUnstorable && faults.length === 0 ? findUnstorableText(item) : faults;
    if (all.length === 0) return item;
    const error = validationFailed(all);
    if (all.length <= maxBatchFaults.ofItem) return error;
    // The message counts all faults.
    return new DomainError(error.code, error.message, { faults: all.slice(0, maxBatchFaults.ofItem) });
  }
}

const recordFault = (message: string): ReadItem => ({ item: {}, faults: [{ path: '', message }] });

/** Returns a function that converts the records of a CSV file to request bodies. */
function cellReader(file: ImportFile, { headers, columns: fields }: CsvLayout): (raw: RawRecord) => ReadItem {
  const places = [...fields.keys()].filter((i) => fields[i] !== null);
  const columns = places.map((i) => importColumn(file.object, fields[i]!)!);
  return ({ cells, cellCount }) => {
    if (cellCount > headers.length)
      return recordFault(`has more cells than the header line, which has ${headers.length}`);
    if (isHeader(cells, headers)) return recordFault('repeats the header line');
    return itemOfCells(
      columns,
      places.map((i) => cells[i]),
    );
  };
}

// Files that were appended to each other contain the header line again.
const isHeader = (cells: readonly Cell[], headers: readonly string[]): boolean =>
  cells.length === headers.length && cells.every(({ text }, i) => text === headers[i] || text.trim() === headers[i]);

/** Returns a function that converts the lines of an NDJSON file to request bodies. */
function lineReader(file: ImportFile): (raw: RawRecord) => ReadItem {
  const ignored = ignoredFields(file);
  return ({ cells }) => {
    const { value, fault } = parseJson(cells[0]!.text);
    if (fault !== undefined) return recordFault(fault);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return recordFault('is not a JSON object');
    const item = value as Record<string, unknown>;
    for (const name of ignored) if (Object.hasOwn(item, name)) delete item[name];
    return { item, faults: [] };
  };
}
