import { lengthOf } from '../../text/code-points.ts';

/**
 * Returns rows as a text table with aligned columns, or `none` if there are no rows.
 * @param columns key: heading of the column; value: function that returns the text of the column for a row
 */
export function table<Row>(rows: readonly Row[], columns: Record<string, (row: Row) => string | null>): string {
  if (rows.length === 0) return 'none';
  const shown = Object.values(columns);
  const lines = [Object.keys(columns), ...rows.map((row) => shown.map((column) => printable(column(row))))];
  const widths = shown.map((_, index) => Math.max(...lines.map((line) => lengthOf(line[index]!))));
  return lines
    .map((line) =>
      line
        .map((cell, index) => pad(cell, widths[index]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/**
 * Returns the text of a table cell: the value, or `-` for null. Replaces control characters, and characters that change
 * the direction of text, by spaces.
 */
// Otherwise text from users could control the terminal, or make one line look like another.
const printable = (value: string | null): string => (value ?? '-').replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, ' ');

const pad = (text: string, width: number): string => text + ' '.repeat(width - lengthOf(text));
