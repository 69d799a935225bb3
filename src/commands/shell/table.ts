import { lengthOf } from '../../text/code-points.ts';

/**
 * Returns a text table with aligned columns, or `none` if there are no rows.
 * @param columns by heading: returns the text of the column for a row
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
 * Returns the text of a cell, `-` for null. Replaces control characters and changes of text direction by spaces: else
 * text from users could control the terminal, or make one line look like another.
 */
const printable = (value: string | null): string => (value ?? '-').replaceAll(/[\p{Cc}\p{Bidi_Control}]/gu, ' ');

const pad = (text: string, width: number): string => text + ' '.repeat(width - lengthOf(text));
