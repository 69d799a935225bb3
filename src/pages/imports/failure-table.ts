import type { Failure } from '../../files/errors-file.ts';
import { columnNames } from '../../files/layout/column-names.ts';
import type { CsvLayout } from '../../files/layout/layout.ts';
import { html, table, type Html } from '../base/html.ts';

/** Columns of a file that a page shows. */
const mostShown = 30;

/** Returns a table of records that failed or have warnings: each reason stands beside the cell that it is about. */
export function failureTable(layout: CsvLayout | null, failures: readonly Failure[]): Html {
  const columns = layout ? shownColumns(layout) : [];
  const heads = ['Line', 'What happened', ...columns.map(({ header }) => header), ...(layout ? [] : ['Record'])];
  return table(
    'Records that failed, or were written with values left out',
    heads,
    failures.map((failure) => failureRow(columns, failure)),
  );
}

interface ShownColumn {
  /** Its header, or a name that no other column has. */
  header: string;
  field: string;
}

const shownColumns = ({ headers, columns }: CsvLayout): ShownColumn[] =>
  columnNames(headers)
    .map((header, i) => ({ header, field: columns[i] ?? '' }))
    .filter(({ field }) => field !== '')
    .slice(0, mostShown);

function failureRow(columns: readonly ShownColumn[], { line, error, warning, record }: Failure): Html {
  const reasons = reasonsIn(
    error ?? warning ?? '',
    columns.map(({ field }) => field),
  );
  const what = error === undefined ? 'written, with a value left out' : 'not written';
  const cells =
    typeof record === 'string' ? [] : columns.map(({ header, field }) => cell(record[header], reasons.get(field)));
  return html`<tr>
    <td class="number">${line}</td>
    <td>${what}!${reasons.has('') ? html`<br /><small class="fault">${reasons.get('')!}</small>` : ''}</td>
    !${cells} !${typeof record === 'string' ? html`<td>${shortened(record)}</td>` : ''}
  </tr>`;
}

const cell = (text = '', reason?: string): Html =>
  html`<td>${shortened(text)}!${reason === undefined ? '' : html`<br /><small class="fault">${reason}</small>`}</td>`;

const shortened = (text: string): string => (text.length > 200 ? `${text.slice(0, 199)}…` : text);

/**
 * Splits a message such as `work_email: … ; birth_year: …`.
 * @returns the reasons by field; those of no column have the key `''`
 */
function reasonsIn(message: string, fields: readonly string[]): Map<string, string> {
  const reasons = new Map<string, string>();
  const add = (field: string, reason: string): void => {
    if (reason !== '') reasons.set(field, reasons.has(field) ? `${reasons.get(field)!}; ${reason}` : reason);
  };
  const names = new Set(fields);
  const starts = [...message.matchAll(/(?:^|; )([a-z][^\s:;]*): /g)].filter(([, name]) =>
    names.has(columnOf(name!, names)),
  );
  add('', message.slice(0, starts[0]?.index ?? message.length));
  for (const [i, start] of starts.entries())
    add(columnOf(start[1]!, names), message.slice(start.index + start[0].length, starts[i + 1]?.index));
  return reasons;
}

/** A fault can be in a part of the value, or in a value that a full name has given. */
function columnOf(name: string, names: ReadonlySet<string>): string {
  if (names.has(name)) return name;
  const whole = name.split('.')[0]!;
  return names.has(whole) ? whole : /^(?:first|last)_name$/.test(name) ? 'full_name' : name;
}
