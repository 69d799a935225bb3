import { lengthOf } from '../text/code-points.ts';

/**
 * Returns rows as a text table with aligned columns, or `none` if there are no rows.
 * @param columns for each column heading, a function that returns the text of a row in this column
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
 * Returns the text of a table cell, `-` for null. Control characters become spaces, so that text from users cannot
 * control the terminal. So do the characters that change the direction of text: they can make a line look like another.
 */
const printable = (value: string | null): string => (value ?? '-').replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, ' ');

const pad = (text: string, width: number): string => text + ' '.repeat(width - lengthOf(text));
