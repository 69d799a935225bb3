import type { Import, ImportPreview } from '../../schemas/imports.ts';
import { countryName } from '../base/values.ts';
import { counted, html, notice, table, type Column, type Html } from '../base/html.ts';
import { fieldWord } from '../base/words.ts';
import { fieldLabel } from './field-choices.ts';
import { shownValue } from './mapping-form.ts';

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
