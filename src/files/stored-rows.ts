import type { Cell } from './columns.ts';
import { type RawRecord, type RecordFault, emptyCell } from './record-formats.ts';

/** A record as it is stored between the reading of its file and its writing. */
export interface StoredRow {
  /** Where the record starts in the file, from 1. */
  line: number;
  cells: Cell[];
  /** Why the record cannot be read, if it cannot. */
  fault?: RecordFault | 'too many cells' | undefined;
  /** A text can have characters that PostgreSQL cannot store. */
  mayBeUnstorable: boolean;
}

/**
 * A text is a plain cell, a text in an array a quoted one, and a number that many empty cells. NUL characters and halves of
 * characters are escape sequences.
 */
type StoredCell = string | [quoted: string] | number | { [broken in NonNullable<Cell['broken']>]?: string };

/** Returns a record as JSON. */
export function toStored({ cells, cellCount, fault }: RawRecord): string {
  const stored: StoredCell[] = [];
  let empty = 0;
  for (const { text, isQuoted, broken } of cells) {
    if (text === '' && !isQuoted && broken === undefined) empty += 1;
    else {
      if (empty > 0) stored.push(empty);
      empty = 0;
      stored.push(broken ? { [broken]: text } : isQuoted ? [text] : text);
    }
  }
  // Files that were appended have the header line again, which can end with empty names.
  if (empty > 0) stored.push(empty);
  const found = fault ?? (cellCount > cells.length ? 'too many cells' : undefined);
  return JSON.stringify(found === undefined ? stored : { fault: found, cells: stored });
}

/** Reads what `toStored` has written. */
export function fromStored(line: number, json: string): StoredRow {
  const stored = JSON.parse(json) as StoredCell[] | { fault: StoredRow['fault']; cells: StoredCell[] };
  const { fault, cells: all } = Array.isArray(stored) ? { fault: undefined, cells: stored } : stored;
  const cells: Cell[] = [];
  for (const cell of all) {
    if (typeof cell === 'string') cells.push({ text: cell, isQuoted: false });
    else if (typeof cell === 'number') for (let i = 0; i < cell; i += 1) cells.push(emptyCell);
    else if (Array.isArray(cell)) cells.push({ text: cell[0], isQuoted: true });
    else {
      const [[broken, text]] = Object.entries(cell) as [[NonNullable<Cell['broken']>, string]];
      cells.push({ text, isQuoted: false, broken });
    }
  }
  return { line, cells, fault, mayBeUnstorable: json.includes('\\') };
}
