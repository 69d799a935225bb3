import type { Fault } from '../../errors.ts';
import type { DetailedPreview, PreviewColumn } from '../../jobs/imports/preview-import.ts';
import type { ImportState } from '../../queries/imports/imports.ts';
import type { ReadType } from '../../files/values/custom-values.ts';
import { customKey } from '../../schemas/filters.ts';
import { customTypes, fieldOfMapped, invalidValues, type Import, type InvalidValues } from '../../schemas/imports.ts';
import { select, selectField, type Choice } from '../base/forms.ts';
import { count, html, table, type Column, type Html } from '../base/html.ts';
import { fieldLabel, fieldsToChoose, inWords, originLabels } from './field-choices.ts';
import { customField, obstaclesTo } from './mapping-changes.ts';

/** Settings that decide how the whole file is read. */
type SourceState = Pick<ImportState, 'sheet' | 'has_header'>;

/**
 * Returns the file's preview, with controls to map its columns and to start the import.
 * @param lists controls that choose a list for the contacts
 * @param page of the columns
 */
export const mappingForm = (
  found: Import,
  preview: DetailedPreview,
  { state, lists, page }: { state: SourceState; lists: Html; page: number },
): Html =>
  html`!${faultList(found, preview)} !${preview.headers ? columns(found, preview, page) : ''}
    !${settings(found, preview, state, lists)}
    <h2>The first records</h2>
    !${preview.records.length === 0 ? html`<p class="quiet">The file has no records.</p>` : records(found, preview)}
    <div class="buttons">
      <button name="do" value="check">Check first</button>
      <button name="do" value="start" class="secondary outline">Import now</button>
      <button name="do" value="save:${page}" class="secondary outline">Save and preview again</button>
      !${preview.headers ? [page - 1, page + 1].map((other) => turnTo(other, preview.columns.length)) : ''}
    </div>
    <p class="quiet">A check writes nothing: it counts what would be written, left out and refused.</p>`;

function faultList(found: Import, preview: DetailedPreview): Html {
  const ofRecords = preview.errors.filter(({ path }) => path.startsWith('/records/'));
  const faults = [...obstaclesTo(found, preview), ...ofRecords];
  const warnings = preview.warnings.filter(({ path }) => path.startsWith('/records/'));
  const misread = preview.warnings.filter(({ path }) => path === '/encoding');
  const ofFile = preview.warnings.filter(({ path }) => path === '' || path === '/mapping');
  const list = listOf(found.object);
  return html`!${list('The encoding may be another one:', misread)}
  !${list('With these settings, something is wrong:', faults)} !${list('What is left out of the file:', ofFile)}
  !${list('Values of the first records that will be left out:', warnings)}`;
}

const listOf =
  (object: Import['object']) =>
  (title: string, faults: readonly Fault[]): Html =>
    faults.length === 0
      ? ''
      : html`<div class="notice warning" role="status">
          <p>${title}</p>
          <ul>
            !${faults.slice(0, mostFaults).map((fault) => html`<li>${faultText(object, fault)}</li>`)}
          </ul>
        </div>`;

/** Contains the number of the record, counted from 1. */
function faultText(object: Import['object'], { path, message }: Fault): string {
  const [, what, index, ...fields] = path.split('/');
  const words = inWords(object, message);
  if (what !== 'records') return words;
  const field = fields.length === 0 ? '' : `${fieldLabel(object, fields.join('.'))}: `;
  return `Record ${Number(index) + 1}: ${field}${words}`;
}

const mostFaults = 100;

/** How many columns of a CSV file, and fields of preview records, a page shows. */
const mostShown = 40;

/** Returns e.g. `41 to 80`: the columns of a page. */
const rangeOf = (page: number, all: number): string =>
  `${count((page - 1) * mostShown + 1)} to ${count(Math.min(page * mostShown, all))}`;

/** Returns a button that keeps the choices of this page and shows other columns. Empty if there are none. */
const turnTo = (page: number, all: number): Html =>
  page < 1 || (page - 1) * mostShown >= all
    ? ''
    : html`<button name="do" value="save:${page}" class="secondary outline">
        Save and show columns ${rangeOf(page, all)}
      </button>`;

/** Returns a table of the columns of a CSV file and the fields to which they are mapped. */
function columns(found: Import, preview: DetailedPreview, page: number): Html {
  const [all, first] = [preview.columns.length, (page - 1) * mostShown];
  const shown = preview.columns.slice(first, first + mostShown);
  const note = html`<p class="quiet">
    The file has ${count(all)} columns. Columns ${rangeOf(page, all)} are shown; the buttons at the end of the page lead
    to the others.
  </p>`;
  return html`<h2>Columns</h2>
    !${leftOutNote(preview)} !${all > mostShown ? note : ''}
    !${table('Columns', columnsOf(found, preview, first), shown)}`;
}

/** Names the columns with values that are left out, and says how to keep them. */
function leftOutNote({ columns: all, headers, mapping }: DetailedPreview): Html {
  const names = all
    .filter(({ header, samples }, i) => samples.length > 0 && headers!.indexOf(header) === i)
    .filter(({ header }) => header !== '' && fieldOfMapped(mapping?.[header] ?? null) === null)
    .map(({ header }) => `“${header}”`);
  if (names.length === 0) return '';
  const shown = [
    ...names.slice(0, mostNamed),
    ...(names.length > mostNamed ? [`${names.length - mostNamed} more`] : []),
  ];
  return html`<p class="quiet">
    Left out: ${shown.join(', ')}. To keep a column, choose a field for it: the first choice is a field of your own.
  </p>`;
}

const mostNamed = 12;

/** @param first index of the first column of the file that is shown */
function columnsOf({ object }: Import, preview: DetailedPreview, first: number): readonly Column<PreviewColumn>[] {
  const isRepeated = (header: string, i: number): boolean => preview.headers!.indexOf(header) !== first + i;
  const fieldOf = (header: string): string => fieldOfMapped(preview.mapping?.[header] ?? null) ?? '';
  const readAs = ({ header }: PreviewColumn, i: number): Html => {
    if (isRepeated(header, i)) return html`<span class="quiet">left out: another column has this header</span>`;
    const origin = preview.mapping_from?.[header];
    return html`!${fieldChoice(object, header, fieldOf(header), first + i)}
      <small class="quiet">${origin ? originLabels[origin] : 'nothing says what it is'}</small>`;
  };
  return [
    ['Column of the file', ({ header }) => html`${header === '' ? '(no header)' : header}`],
    ['Values', ({ samples }) => samples.map((one) => html`<div class="sample">${one}</div>`).join(''), 'quiet'],
    ['Is read as', readAs],
    ['Type', (one, i) => (isRepeated(one.header, i) ? '' : typeChoice(one, fieldOf(one.header), first + i))],
  ];
}

const fieldChoice = (object: Import['object'], header: string, field: string, i: number): Html =>
  select(
    html`name="column-${i}" aria-label="Field of the column ${header}"`,
    [
      ['', 'leave it out'],
      ...choicesFor(object, header, field).map((name) => [name, fieldLabel(object, name)] as const),
    ],
    field,
  );

/** Returns the standard fields, and a custom field with the column's name. */
function choicesFor(object: Import['object'], header: string, field: string): string[] {
  const names = fieldsToChoose(object);
  const custom = customField(header);
  const others = [customKey(custom) === undefined ? '' : custom, field].filter(
    (name) => name !== '' && !names.includes(name),
  );
  return [...new Set([...others, ...names])];
}

const typeLabels: Record<ReadType, string> = {
  text: 'text',
  number: 'number',
  boolean: 'yes or no',
  date: 'date',
  url: 'web address',
};

/** Only custom fields have one. It is shown for all, so that it can be chosen together with the field. */
function typeChoice({ header, type, isTypeGiven, isDeclared }: PreviewColumn, field: string, i: number): Html {
  if (isDeclared && type) return html`${typeLabels[type]}<small class="quiet">as the field is declared</small>`;
  const found = type && !isTypeGiven ? ` (${typeLabels[type]})` : '';
  const chosen = isTypeGiven && type ? type : '';
  const isCustom = customKey(field) !== undefined;
  return select(
    html`name="type-${i}" aria-label="Type of the column ${header}, if it is a custom field"`,
    [
      ['', isCustom ? `as the cells show${found}` : '–'],
      ...customTypes.map((name) => [name, typeLabels[name]] as const),
    ],
    chosen,
  );
}

const invalidLabels: Record<InvalidValues, string> = {
  skip: 'leave them out, write the record, and say so',
  fail: 'do not write the record',
};

const commonEncodings = [
  'utf-8',
  'windows-1252',
  'iso-8859-2',
  'windows-1250',
  'windows-1251',
  'macintosh',
  'utf-16le',
];

function settings(
  found: Import,
  { sheets, encoding, separator }: DetailedPreview,
  { sheet, has_header: hasHeader }: SourceState,
  lists: Html,
): Html {
  const choice = (name: string, label: string, choices: readonly Choice[], chosen: string): Html =>
    selectField({ name, label, faults: {} }, choices, chosen);
  const same = (name: string): Choice => [name, name];
  const encodings = [...new Set([encoding ?? '', ...commonEncodings])].filter((name) => name !== '');
  const separated = separator === null ? '' : ` (cells are separated by ${separatorLabels[separator] ?? separator})`;
  const invalid = invalidValues.map((name) => [name, invalidLabels[name]] as const);
  return html`<h2>Settings</h2>
    <div class="card">
      !${lists} !${choice('invalid_values', 'Values that cannot be read', invalid, found.invalid_values)}
      !${sheets && sheets.length > 1 ? choice('sheet', 'Sheet', sheets.map(same), sheet ?? sheets[0]!) : ''}
      !${
        found.format === 'csv' && encoding !== null
          ? choice('encoding', `Encoding${separated}`, encodings.map(same), encoding)
          : ''
      }
      !${
        found.format === 'csv' || found.format === 'xlsx'
          ? choice('header', 'The first line', firstLines, hasHeader ? 'names' : 'record')
          : ''
      }
    </div>`;
}

const firstLines: readonly Choice[] = [
  ['names', 'has the names of the columns'],
  ['record', 'is a record: the file has no header'],
];

const separatorLabels: Record<string, string> = {
  ',': 'commas',
  ';': 'semicolons',
  '\t': 'tabs',
  '|': 'vertical bars',
};

function records({ object }: Import, { records: items }: DetailedPreview): Html {
  const fields = fieldsToChoose(object).map((field) => field.split('.')[0]!);
  const place = (name: string) => (fields.includes(name) ? fields.indexOf(name) : fields.length);
  const all = [...new Set(items.flatMap((item) => Object.keys(item)))].toSorted((a, b) => place(a) - place(b));
  const names = all.slice(0, mostShown);
  const shown = names.map((name): Column<object> => [
    fieldLabel(object, name),
    (item) => html`${shownValue((item as Record<string, unknown>)[name])}`,
  ]);
  const note = html`<p class="quiet">The first ${mostShown} of ${count(all.length)} fields are shown.</p>`;
  return html`!${all.length > mostShown ? note : ''} !${table<object>('First records', shown, items)}`;
}

/** Returns a value as people write it: of phone numbers, and of objects, what they hold. */
export function shownValue(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(shownPart).join(', ');
  if (typeof value !== 'object' || value === null) return value === undefined ? '' : JSON.stringify(value);
  const entries = Object.entries(value);
  return entries.map(([key, one]) => (key === 'name' ? shownPart(one) : `${key}: ${shownPart(one)}`)).join(', ');
}

const shownPart = (value: unknown): string =>
  typeof value === 'object' && value !== null
    ? Object.values(value).map(shownPart).join(' ').trim()
    : shownValue(value);
