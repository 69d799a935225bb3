import type { Failure } from '../../files/errors-file.ts';
import { columnNames } from '../../files/layout/column-names.ts';
import type { CsvLayout } from '../../files/layout/layout.ts';
import type { ImportObject, Import, ImportPreview } from '../../schemas/imports.ts';
import { html, table, counted, notice, type Column, type Html } from '../base/html.ts';
import { inWords, fieldLabel, shownValue } from './mapping.ts';
import { countryName } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';

/** Columns of a file that a page shows. */
const maxShown = 30;

/**
 * Returns a table of records that failed or have warnings: each reason stands beside the cell that it is about. Columns
 * with a reason come first.
 */
export function failureTable(object: ImportObject, layout: CsvLayout | null, failures: readonly Failure[]): Html {
  const all = layout ? shownColumns(layout) : [];
  const fields = all.map(({ field }) => field);
  const reasons = failures.map(({ error, warning }) => reasonsIn(error ?? warning ?? '', fields));
  const rank = ({ field }: ShownColumn) => (reasons.some((found) => found.has(field)) ? 0 : 1);
  const columns = all.toSorted((a, b) => rank(a) - rank(b)).slice(0, maxShown);
  const reasonOf = (i: number, field: string) => reasonText(inWords(object, reasons[i]!.get(field) ?? ''));
  return table<Failure>(
    'Records that failed, or were written with values left out',
    [
      ['Line', ({ line }) => String(line), 'number'],
      [
        'What happened',
        ({ error }, i) =>
          html`${error === undefined ? 'written, with a value left out' : 'not written'}!${reasonOf(i, '')}`,
      ],
      ...columns.map(({ header, field }): Column<Failure> => [
        header,
        ({ record }, i) =>
          typeof record === 'string' ? '' : html`${shortened(record[header] ?? '')}!${reasonOf(i, field)}`,
      ]),
      ...(failures.some(({ record }) => typeof record === 'string') ? [wholeRecord] : []),
    ],
    failures,
  );
}

const wholeRecord: Column<Failure> = [
  'Record',
  ({ record }) => html`${typeof record === 'string' ? shortened(record) : ''}`,
];

interface ShownColumn {
  /** Its header, or a name that no other column has. */
  header: string;
  field: string;
}

const shownColumns = ({ headers, columns }: CsvLayout): ShownColumn[] =>
  columnNames(headers)
    .map((header, i) => ({ header, field: columns[i] ?? '' }))
    .filter(({ field }) => field !== '');

const reasonText = (reason: string): Html => (reason === '' ? '' : html`<br /><small class="fault">${reason}</small>`);

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
  const starts = [...message.matchAll(/(?:^|; )(?:([a-z][^\s:;]*): |(?=a new record needs ))/g)].filter(
    ([, name]) => name === undefined || names.has(columnOf(name, names)),
  );
  add('', message.slice(0, starts[0]?.index ?? message.length));
  for (const [i, start] of starts.entries())
    add(columnOf(start[1] ?? '', names), message.slice(start.index + start[0].length, starts[i + 1]?.index));
  return reasons;
}

/** A fault can be in a part of the value, or in a value that a full name has given. */
function columnOf(name: string, names: ReadonlySet<string>): string {
  if (names.has(name)) return name;
  const whole = name.split('.')[0]!;
  return names.has(whole) ? whole : /^(?:first|last)_name$/.test(name) ? 'full_name' : name;
}

/** Shows what a check has found: values that several records have, and old and new values of stored records. */
export function foundChanges(
  { object, match }: Pick<Import, 'object' | 'match'>,
  { changes, repeated }: Pick<ImportPreview, 'changes' | 'repeated'>,
): Html {
  const word = match === null ? '' : fieldWord(object, match).toLowerCase();
  const twice = `${counted(repeated, `value of “${word}”`, `values of “${word}”`)} ${repeated === 1 ? 'stands' : 'stand'} in several records: the last of them counts.`;
  const rows = changes.flatMap(({ line, id, fields }) =>
    Object.entries(fields).map(([field, [old, now]], i) => ({ line, id, field, old, now, isFirst: i === 0 })),
  );
  const columns: readonly Column<(typeof rows)[number]>[] = [
    ['Line', ({ line, isFirst }) => (isFirst ? String(line) : ''), 'number'],
    ['Record', ({ id, isFirst }) => (isFirst ? html`<a href="/app/${object}/${id}">Open</a>` : '')],
    ['Field', ({ field }) => html`${fieldLabel(object, field)}`],
    ['Now', ({ field, old }) => html`${valueText(field, old)}`],
    ['Then', ({ field, now }) => html`${valueText(field, now)}`],
  ];
  return html`!${repeated > 0 ? notice(twice, 'warning') : ''}
  !${rows.length === 0 ? '' : html`<h2>What would change</h2>`}
  !${rows.length === 0 ? '' : table('What would change', columns, rows)}`;
}

const valueText = (field: string, value: unknown): string =>
  value === null || value === ''
    ? '–'
    : field === 'location_country' && typeof value === 'string'
      ? countryName(value)
      : shownValue(value);
