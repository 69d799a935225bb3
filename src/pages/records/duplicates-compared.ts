import type { FastifyReply, FastifyRequest } from 'fastify';
import { formFaults, hidden as hiddenFields, text, tick, type Faults, type Fields } from '../base/forms.ts';
import { buttons, count, html, moment, table, type Html } from '../base/html.ts';
import { form } from '../base/layout.ts';
import { usersOf } from './record-edit.ts';
import { formText } from './record-form.ts';
import type { FormField, RecordKind, ShownRecord } from './record-kind.ts';
import { valueOf } from './record-view.ts';

interface Comparison {
  kind: RecordKind;
  /** The oldest first. */
  rows: readonly ShownRecord[];
  /** What was sent before. */
  fields: Fields;
  faults: Faults;
  /** Further fields of the form. */
  hidden: Readonly<Record<string, string>>;
  action: string;
  back: string;
}

/** Fields of which a merge keeps the values of all records. */
const united = new Set(['other_emails', 'phone_numbers']);

/** Returns a form that shows records side by side. Where they differ, one chooses whose value is kept. */
export async function comparison(
  request: FastifyRequest,
  reply: FastifyReply,
  { kind, rows, fields, faults, hidden, action, back }: Comparison,
): Promise<Html> {
  const users = await usersOf(request);
  const lines: Html[] = [
    line(
      'Stays',
      rows.map((row) => radio('keep', row.id, text(fields, 'keep') || rows[0]!.id, html`${kind.nameOf(row)}`)),
    ),
    line(
      'Created',
      rows.map(({ created_at }) => moment(created_at)),
    ),
  ];
  for (const one of kind.fields) {
    const texts = await Promise.all(rows.map((row) => formText(one, row)));
    if (texts.every((given) => given === '')) continue;
    const shown = rows.map((row, i) => valueOf(kind, one, texts[i]!, row, users));
    lines.push(line(one.label, isOpen(one, texts) ? choices(one, rows, texts, shown, fields) : shown));
  }
  const keys = ownKeys(rows);
  lines.push(
    line(
      'Your own fields',
      rows.map((row) => ownFields(row, keys)),
    ),
  );
  const heads = ['Field', ...rows.map((_, i) => (i === 0 ? 'The oldest' : `Number ${i + 1}`))];
  const body = html`!${formFaults(faults, [])} !${hiddenFields({ ...hidden, id: rows.map(({ id }) => id) })}
    <p>
      One stays and gets the lists and opportunities of the others, which are deleted. Of other e-mails, phone numbers
      and your own fields, those of all are kept.
    </p>
    !${table('Records side by side', heads, lines)} !${buttons('Merge', back, 'Back')}`;
  return form(request, reply, { action, body, attributes: 'data-once' });
}

const line = (name: string, cells: readonly Html[]): Html =>
  html`<tr>
    <th scope="row">${name}</th>
    !${cells.map((cell) => html`<td>!${cell}</td>`)}
  </tr>`;

const isOpen = ({ name }: FormField, texts: readonly string[]): boolean =>
  !united.has(name) && new Set(texts.filter((given) => given !== '')).size > 1;

/** Returns a choice between the values of the records that have one. At first that of the oldest is chosen. */
function choices(
  { name }: FormField,
  rows: readonly ShownRecord[],
  texts: readonly string[],
  shown: readonly Html[],
  fields: Fields,
): Html[] {
  const first = rows[texts.findIndex((given) => given !== '')]!.id;
  const chosen = text(fields, `field_${name}`) || first;
  return rows.map(({ id }, i) => (texts[i] === '' ? shown[i]! : radio(`field_${name}`, id, chosen, shown[i]!)));
}

const radio = (name: string, value: string, chosen: string, label: Html): Html =>
  tick('radio', [name, value], label, value === chosen);

/** A customer's own fields that are shown of each record. */
const mostOwn = 15;

/** Returns the names of the own fields of all records. Those in which the records differ come first. */
function ownKeys(rows: readonly ShownRecord[]): string[] {
  const keys = [...new Set(rows.flatMap(({ custom_fields }) => Object.keys(custom_fields)))];
  const isSame = (key: string): boolean => new Set(rows.map(({ custom_fields }) => custom_fields[key])).size === 1;
  const same = new Set(keys.filter(isSame));
  return [...keys.filter((key) => !same.has(key)), ...same];
}

function ownFields({ custom_fields: given }: ShownRecord, keys: readonly string[]): Html {
  const own = keys.filter((key) => Object.hasOwn(given, key));
  const hidden = own.length - mostOwn;
  return html`!${own.slice(0, mostOwn).map((key) => html`<span class="line">${key}: ${String(given[key])}</span>`)}
  !${hidden > 0 ? html`<span class="quiet">and ${count(hidden)} more</span>` : ''}
  !${own.length === 0 ? html`<span class="quiet">–</span>` : ''}`;
}
