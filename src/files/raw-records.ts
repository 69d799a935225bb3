import type { Cell } from './cells.ts';

/** A place in a file between two records. */
export interface FilePosition {
  /** Number of bytes before it, in the uncompressed file. */
  bytes: number;
  /** Number of the line that begins there. The first line of the file is 1. */
  line: number;
}

/** One record of a file, before its values are read. */
export interface RawRecord {
  /** The cells of a CSV record. An NDJSON record has one cell: its line. Empty if the record is too long. */
  cells: Cell[];
  /** Number of cells. If it is greater than the number of `cells`, the scanner stopped counting there. */
  cellCount: number;
  /** Number of the line where the record starts. */
  line: number;
  /** Where the next record starts. */
  next: FilePosition;
  /** Why the record cannot be read, if so. */
  fault?: string | undefined;
}

/** Cuts the text of a file into records. Holds at most one record in memory, and of a record that is too long nothing. */
export interface RecordScanner {
  /** Number of the line that is being scanned. */
  readonly line: number;
  /** Yields the records that end in the next piece of text. Blank lines are not records. */
  scan(text: string): Iterable<RawRecord>;
  /** Yields the last record if no line break follows it. */
  end(): Iterable<RawRecord>;
}

/** Maximum size of a record (bytes), with its line break. A longer one is a failed record. */
export const maxRecordBytes = 1024 * 1024;

export const tooLong = `is longer than ${maxRecordBytes / 1024 / 1024} MiB`;

/** Counts the bytes of text as UTF-8. Faster than Node for parts of a text that is all ASCII. */
export class ByteCounter {
  readonly #text: string;
  readonly #isAscii: boolean;

  constructor(text: string) {
    this.#text = text;
    this.#isAscii = Buffer.byteLength(text) === text.length;
  }

  /** Returns the number of bytes of a part of the text. */
  between(start: number, end: number): number {
    return this.#isAscii ? end - start : Buffer.byteLength(this.#text.slice(start, end));
  }
}
