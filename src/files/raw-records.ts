import type { Cell } from './cells.ts';

/** A place between two records. */
export interface FilePosition {
  /** Before this position, in the uncompressed file. */
  bytes: number;
  /** Of the line that begins here, from 1. */
  line: number;
}

export type RecordFault = 'too long' | 'text after quote' | 'open quote' | 'invalid bytes';

/** A record as text. */
export interface RawRecord {
  /** A line of NDJSON is one cell. Empty if the record is too long. */
  cells: Cell[];
  /** Larger than `cells.length`, and not exact, if there are more cells than the parser returns. */
  cellCount: number;
  /** Where the record starts. */
  line: number;
  next: FilePosition;
  /** The record ends with a CR without LF. Always false for NDJSON. */
  endsWithCr: boolean;
  /** Why the record cannot be read, if it cannot. */
  fault: RecordFault | undefined;
  /** E.g. of the quote that is not closed. */
  faultLine: number;
}

/** With its line break (bytes). */
export const maxRecordBytes = 1024 * 1024;

export const maxColumns = 10_000;

/** Cells beyond the header that a record of a file is read with: they are empty, or the errors file repeats them. */
export const maxSurplus = 1_000;

export const faultTexts: Record<RecordFault, string> = {
  'too long': `is longer than ${maxRecordBytes / 1024 / 1024} MiB`,
  'text after quote': 'has text after a closing quote',
  'open quote': 'has a quote that is not closed',
  'invalid bytes': 'is not valid UTF-8',
};

/** A row without values: spreadsheets export it as separators alone. */
export const isEmpty = ({ cells, cellCount, fault }: RawRecord): boolean =>
  cells.length > 1 &&
  cells.length === cellCount &&
  fault === undefined &&
  cells.every(({ text }) => text.trim() === '');
