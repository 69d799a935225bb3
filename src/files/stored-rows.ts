import type { Cell } from './columns.ts';
import { type RawRecord, type RecordFault, emptyCell } from './record-formats.ts';

export interface StoredRow {
  line: number;
  cells: Cell[];
  fault?: RecordFault | 'too many cells' | undefined;
  mayBeUnstorable: boolean;
}

/**
 * JSON form of cells. A string is an unquoted cell, a string in an array a quoted cell. A number stands for that many
 * empty cells, an object for a broken cell.
 */
type StoredCell = string | [quoted: string] | number | { [broken in NonNullable<Cell['broken']>]?: string };

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
