import type { CustomType } from '../../schemas/imports.ts';
import { trimText } from '../../text/trim.ts';
import type { Cell } from '../cells.ts';
import { decimalMarkOf, isExactNumber, type DecimalMark } from '../values/custom-values.ts';
import { isNothing } from '../values/read-value.ts';

/** What the cells of a column were so far, as bits. */
const sawText = 1;
const sawNumber = 2;
const sawBoolean = 4;
const sawMark: Record<DecimalMark, number> = { '.': 8, ',': 16 };

/** Returns what a column has been, with one more cell. Cells without a value do not count. */
export function seenWith(seen: number, cell: Cell): number {
  const text = trimText(cell.text);
  if (text === '' || isNothing(text) || (text === String.raw`\N` && !cell.isQuoted)) return seen;
  if (cell.isQuoted) return seen | sawText;
  if (text === 'true' || text === 'false') return seen | sawBoolean;
  return seen | (isExactNumber(text) ? sawNumber : sawText);
}

/** Returns the type of a column whose cells were these. */
export function typeSeen(seen: number): CustomType {
  if (seen === sawNumber) return 'number';
  return seen === sawBoolean ? 'boolean' : 'text';
}

/** The same as `seenWith` for a column of numbers: which decimal marks it has been written with. */
export function marksSeenWith(seen: number, cell: Cell): number {
  const mark = decimalMarkOf(cell.text);
  return mark ? seen | sawMark[mark] : seen;
}

/** Returns the decimal mark of a column whose cells were these; null if none or both were seen. */
export function markSeen(seen: number): DecimalMark | null {
  if (seen === sawMark['.']) return '.';
  return seen === sawMark[','] ? ',' : null;
}
