import type { FooterRecord } from './footers.ts';
import type { CsvLayout } from './layout.ts';

/** Returns what is left out of a file that belongs to no single record, in words for people. */
export const fileWarnings = ({ titles = [], footer = [] }: CsvLayout): string[] => [
  ...(titles.length === 0 ? [] : [`titles and degrees are left out of full names: ${titles.join(', ').slice(0, 500)}`]),
  ...(footer.length === 0 ? [] : [`${linesOf(footer)} left out: ${footerText}`]),
];

export const footerText = 'it looks like the footer of a report, not like a record';

function linesOf(footer: readonly FooterRecord[]): string {
  const [first, last] = [footer[0]!.line, footer.at(-1)!.line];
  return first === last ? `line ${first} is` : `lines ${first} to ${last} are`;
}
