import type { Cell } from './cells.ts';

/** A place in a file between two records. */
export interface FilePosition {
  /** Number of bytes in the uncompressed file before this position. */
  bytes: number;
  /** Number of the line that begins at this position. The first line of the file is 1. */
  line: number;
}

/** Why a record cannot be read. */
export type RecordFault = 'too long' | 'text after quote' | 'open quote' | 'invalid bytes';

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
  /** True if the record ends with a CR that no LF follows. Always false for NDJSON. */
  endsWithCr: boolean;
  /** The reason why the record cannot be read. Undefined if the record can be read. */
  fault: RecordFault | undefined;
  /** Number of the line with the fault, such as the line of the quote that is not closed. */
  faultLine: number;
}

/** Maximum size of a record with its line break (bytes). */
export const maxRecordBytes = 1024 * 1024;

/** What is wrong with a record, or with its file. */
export const faultTexts: Record<RecordFault, string> = {
  'too long': `is longer than ${maxRecordBytes / 1024 / 1024} MiB`,
  'text after quote': 'has text after a closing quote',
  'open quote': 'has a quote that is not closed',
  'invalid bytes': 'is not valid UTF-8',
};
