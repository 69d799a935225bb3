import { lengthOf } from '../code-points.ts';

/**
 * Rows for people, in aligned columns.
 * @param columns what each column shows of a row, by its heading
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

/** Control characters in what users entered must not reach the terminal of whoever looks at it. */
const printable = (value: string | null): string => (value ?? '-').replaceAll(/\p{Cc}/gu, ' ');

const pad = (text: string, width: number): string => text + ' '.repeat(width - lengthOf(text));
