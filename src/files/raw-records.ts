import type { Cell } from './cells.ts';

/** A place in a file between two records. */
export interface FilePosition {
  /** Number of bytes in the uncompressed file before this position. */
  bytes: number;
  /** Number of the line that begins at this position. The first line of the file is 1. */
  line: number;
}

/** One record of a file as text, not converted to values yet. */
export interface RawRecord {
  /** The cells of a CSV record. An NDJSON record has one cell: its line. Empty if the record is too long. */
  cells: Cell[];
  /**
   * Number of cells in the record. The parser returns only a limited number of cells. If the record has more, this
   * number is larger than `cells.length`, but not exact.
   */
  cellCount: number;
  /** Number of the line where the record starts. */
  line: number;
  /** Where the next record starts. */
  next: FilePosition;
  /** The reason why the record cannot be read. Undefined if the record can be read. */
  fault?: string | undefined;
}

/** Splits the text of a file into records. Holds only the current record in memory. */
export interface RecordScanner {
  /** Number of the line that is being scanned. */
  readonly line: number;
  /** Yields the records that end in the next piece of text. Blank lines are not records. */
  scan(text: string): Iterable<RawRecord>;
  /** Yields the last record if no line break follows it. */
  end(): Iterable<RawRecord>;
}

/** Maximum size of a record with its line break (bytes). A longer record is reported as failed. */
export const maxRecordBytes = 1024 * 1024;

export const tooLong = `is longer than ${maxRecordBytes / 1024 / 1024} MiB`;

/** Measures how many bytes parts of a text have in UTF-8. This is fast if the text contains only ASCII characters. */
export class ByteCounter {
  readonly #text: string;
  readonly #isAscii: boolean;

  constructor(text: string) {
    this.#text = text;
    this.#isAscii = Buffer.byteLength(text) === text.length;
  }

  /** Returns the size of a part of the text in UTF-8 (bytes). */
  between(start: number, end: number): number {
    return this.#isAscii ? end - start : Buffer.byteLength(this.#text.slice(start, end));
  }
}
