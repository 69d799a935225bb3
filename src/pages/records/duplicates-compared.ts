import type { FastifyReply, FastifyRequest } from 'fastify';
import { formFaults, hidden as hiddenFields, text, tick, type Faults, type Fields } from '../base/forms.ts';
import { buttons, count, html, moment, table, type Column, type Html } from '../base/html.ts';
import { form } from '../base/layout.ts';
import { usersOf } from './record-edit.ts';
import { formText } from './record-form.ts';
import type { RecordKind, ShownRecord } from './record-kind.ts';
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
  const lines: Line[] = [
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
    const options = { name: `field_${one.name}`, texts, shown };
    lines.push(line(one.label, !united.has(one.name) && differ(texts) ? choices(options, rows, fields) : shown));
  }
  const open = openKeys(rows);
  for (const [i, key] of open.entries()) {
    const texts = rows.map((row) => ownText(row, key));
    const shown = texts.map((one) => (one === '' ? html`<span class="quiet">–</span>` : html`${one}`));
    lines.push(line(key, choices({ name: ownName(i), texts, shown }, rows, fields)));
  }
  const keys = ownKeys(rows).filter((key) => !open.includes(key));
  lines.push(
    line(
      'Your own fields',
      rows.map((row) => ownFields(row, keys)),
    ),
  );
  const columns: readonly Column<Line>[] = [
    ['Field', ({ name }) => html`${name}`, 'row'],
    ...rows.map((_, i): Column<Line> => [i === 0 ? 'The oldest' : `Number ${i + 1}`, ({ cells }) => cells[i]!]),
  ];
  const body = html`!${formFaults(faults, [])} !${hiddenFields({ ...hidden, id: rows.map(({ id }) => id) })}
    <p>
      One stays and gets the lists and opportunities of the others, which are deleted. Other e-mails, phone numbers and
      your own fields of all are kept. Where records have different values, the chosen one stays and the others are
      deleted.
    </p>
    !${table('Records side by side', columns, lines)} !${buttons('Merge', back, 'Back')}`;
  return form(request, reply, { action, body, attributes: 'data-once' });
}

interface Line {
  name: string;
  /** Of each record. */
  cells: readonly Html[];
}

const line = (name: string, cells: readonly Html[]): Line => ({ name, cells });

/** True if the values that are not empty are not all the same. */
const differ = (texts: readonly string[]): boolean => new Set(texts.filter((given) => given !== '')).size > 1;

interface Options {
  /** Of the control. */
  name: string;
  /** Value of each record. */
  texts: readonly string[];
  shown: readonly Html[];
}

/** Returns a choice between the values of the records that have one. At first that of the oldest is chosen. */
function choices({ name, texts, shown }: Options, rows: readonly ShownRecord[], fields: Fields): Html[] {
  const first = rows[texts.findIndex((given) => given !== '')]!.id;
  const chosen = text(fields, name) || first;
  return rows.map(({ id }, i) => (texts[i] === '' ? shown[i]! : radio(name, id, chosen, shown[i]!)));
}

const ownText = ({ custom_fields: given }: ShownRecord, key: string): string =>
  Object.hasOwn(given, key) ? String(given[key]) : '';

/** Name of the control for an own field. Not its key, because browsers change line breaks in names. */
export const ownName = (index: number): string => `own_${index}`;

/** Returns the own fields with different values, of which one has to be chosen. */
export const openKeys = (rows: readonly ShownRecord[]): string[] =>
  ownKeys(rows).filter((key) => differ(rows.map((row) => ownText(row, key))));

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
