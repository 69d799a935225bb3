import type { Fault } from '../errors.ts';
import type { DetailedPreview, PreviewColumn } from '../jobs/preview-import.ts';
import type { ImportState } from '../queries/jobs/imports.ts';
import type { ReadType } from '../files/values.ts';
import { customKey } from '../schemas/filters.ts';
import { customTypes, fieldOfMapped, importedKinds, invalidValues, type Mapping } from '../schemas/imports.ts';
import type {
  Import,
  InvalidValues,
  CustomType,
  ImportPatch,
  ImportPreview,
  MappedField,
  ImportObject,
  MappingOrigin,
} from '../schemas/imports.ts';
import { select, controlsFor, type Choice } from './base/forms.ts';
import { text, unchanged, type Fields } from './base/requests.ts';
import { when, table, html, type Html, type Column } from './base/html.ts';
import { count } from './base/values.ts';
import { fieldWord } from './base/words.ts';
import { encodingNamed, importColumn } from '../files/encodings.ts';
import { importableNames, importedFields, opportunityFileFields } from '../schemas/files.ts';

interface MappingState {
  state: Pick<ImportState, 'sheet' | 'has_header'>;
  /** Controls that choose a list for the contacts. */
  lists: Html;
  /** Number of the page of columns. */
  page: number;
  sent: Fields;
}

/** Returns the preview of a file, with controls that map its columns. */
export const mappingForm = (found: Import, preview: DetailedPreview, shown: MappingState): Html =>
  html`!${faultList(found, preview)} !${preview.headers ? columns(found, preview, shown) : ''}
    !${settings(found, preview, shown)}
    <h2>The first records</h2>
    !${preview.records.length === 0 ? html`<p class="quiet">The file has no records.</p>` : records(found, preview)}
    <div class="buttons">
      <button name="do" value="check">Check first</button>
      <button name="do" value="start" class="secondary outline">Import now</button>
      <button name="do" value="save:${shown.page}" class="secondary outline">Save and preview again</button>
      !${preview.headers ? [shown.page - 1, shown.page + 1].map((other) => turnTo(other, preview.columns.length)) : ''}
    </div>
    <p class="quiet">A check writes nothing: it counts what would be written, left out and refused.</p>`;

function faultList(found: Import, preview: DetailedPreview): Html {
  const isOfRecord = ({ path }: Fault) => path.startsWith('/records/');
  const lists: [title: string, faults: Fault[]][] = [
    ['The encoding may be another one:', preview.warnings.filter(({ path }) => path === '/encoding')],
    ['With these settings, something is wrong:', obstaclesTo(found, preview)],
    ['These of the first records would not be written:', preview.errors.filter(isOfRecord)],
    ['What is left out of the file:', preview.warnings.filter(({ path }) => path === '' || path === '/mapping')],
    ['Values of the first records that will be left out:', preview.warnings.filter(isOfRecord)],
  ];
  return html`!${lists
    .filter(([, faults]) => faults.length > 0)
    .map(
      ([title, faults]) =>
        html`<div class="notice warning" role="status">
          <p>${title}</p>
          <ul>
            !${faults.slice(0, maxFaults).map((fault) => html`<li>${faultText(found.object, fault)}</li>`)}
          </ul>
        </div>`,
    )}`;
}

function faultText(object: Import['object'], { path, message }: Fault): string {
  const [, what, index, ...fields] = path.split('/');
  const words = inWords(object, message);
  if (what !== 'records') return words;
  const field = fields.length === 0 ? '' : `${fieldLabel(object, fields.join('.'))}: `;
  return `Record ${Number(index) + 1}: ${field}${words}`;
}

const maxFaults = 100;

const maxShown = 40;

const rangeOf = (page: number, all: number): string =>
  `${count((page - 1) * maxShown + 1)} to ${count(Math.min(page * maxShown, all))}`;

/**
 * Returns a button that saves the choices and shows another page of columns. Returns an empty string if there is no
 * such page.
 */
const turnTo = (page: number, all: number): Html =>
  page < 1 || (page - 1) * maxShown >= all
    ? ''
    : html`<button name="do" value="save:${page}" class="secondary outline">
        Save and show columns ${rangeOf(page, all)}
      </button>`;

function columns(found: Import, preview: DetailedPreview, { page, sent }: MappingState): Html {
  const [all, first] = [preview.columns.length, (page - 1) * maxShown];
  const shown = preview.columns.slice(first, first + maxShown);
  const note = html`<p class="quiet">
    The file has ${count(all)} columns. Columns ${rangeOf(page, all)} are shown; the buttons at the end of the page lead
    to the others.
  </p>`;
  return html`<h2>Columns</h2>
    !${leftOutNote(found, preview)} !${all > maxShown ? note : ''}
    !${table('Columns', columnsOf(found, preview, { first, sent }), shown)}`;
}

const hasOwnFields = (object: ImportObject): boolean => importColumn(object, customField('x')) !== undefined;

function leftOutNote({ object }: Import, { columns: all, headers, mapping }: DetailedPreview): Html {
  const names = all
    .filter(({ header, samples }, i) => samples.length > 0 && headers!.indexOf(header) === i)
    .filter(({ header }) => header !== '' && fieldOfMapped(mapping?.[header] ?? null) === null)
    .map(({ header }) => `“${header}”`);
  if (names.length === 0) return '';
  const shown = [...names.slice(0, maxNamed), ...(names.length > maxNamed ? [`${names.length - maxNamed} more`] : [])];
  return html`<p class="quiet">
    Left out: ${shown.join(', ')}. To keep a column, choose a field for
    it${hasOwnFields(object) ? ', such as a field of your own' : ''}.
  </p>`;
}

const maxNamed = 12;

function columnsOf(
  { object }: Import,
  preview: DetailedPreview,
  { first, sent }: { first: number; sent: Fields },
): readonly Column<PreviewColumn>[] {
  const isRepeated = (header: string, i: number): boolean => preview.headers!.indexOf(header) !== first + i;
  const fieldOf = (header: string, i: number): string =>
    `column-${first + i}` in sent
      ? text(sent, `column-${first + i}`)
      : (fieldOfMapped(preview.mapping?.[header] ?? null) ?? '');
  const readAs = ({ header }: PreviewColumn, i: number): Html => {
    if (isRepeated(header, i)) return html`<span class="quiet">left out: another column has this header</span>`;
    const origin = preview.mapping_from?.[header];
    return html`!${fieldChoice(object, header, fieldOf(header, i), first + i)}
      <small class="quiet">${origin ? originLabels[origin] : 'nothing says what it is'}</small>`;
  };
  return [
    ['Column of the file', ({ header }) => html`${header === '' ? '(no header)' : header}`],
    [
      'Values',
      ({ samples }) => samples.map((one) => html`<span class="line">${shortened(one, 40)}</span>`).join(''),
      'quiet',
    ],
    ['Is read as', readAs],
    ['Type', (one, i) => (isRepeated(one.header, i) ? '' : typeChoice(one, fieldOf(one.header, i), first + i))],
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

function choicesFor(object: Import['object'], header: string, field: string): string[] {
  const names = fieldsToChoose(object);
  const custom = customField(header);
  const isOwn = hasOwnFields(object) && customKey(custom) !== undefined;
  const others = [isOwn ? custom : '', field].filter((name) => name !== '' && !names.includes(name));
  return [...new Set([...others, ...names])];
}

const typeLabels: Record<ReadType, string> = {
  instant: 'a date',
  text: 'text',
  number: 'number',
  boolean: 'yes or no',
  date: 'date',
  url: 'web address',
};

/**
 * Returns a select for the type of a column that is read as a custom field. A column that is left out also has one, so
 * a user can choose its field and type together.
 */
function typeChoice({ header, type, isTypeGiven, isDeclared }: PreviewColumn, field: string, i: number): Html {
  const isCustom = customKey(field) !== undefined;
  if (field !== '' && !isCustom) return '';
  if (isDeclared && type) return html`${typeLabels[type]}<small class="quiet">as the field is declared</small>`;
  const found = type && !isTypeGiven ? ` (${typeLabels[type]})` : '';
  const chosen = isTypeGiven && type ? type : '';
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

function settings(found: Import, preview: DetailedPreview, { state, lists, sent }: MappingState): Html {
  const { mapping, sheets, encoding, separator } = preview;
  const values = {
    mode: shownMode(found, mapping, sent),
    invalid_values: found.invalid_values,
    sheet: state.sheet ?? sheets?.[0],
    encoding: encoding ?? '',
    header: state.has_header ? 'names' : 'record',
  };
  const { choice } = controlsFor(values, {});
  const same = (name: string): Choice => [name, name];
  const encodings = [...new Set([values.encoding, ...commonEncodings])].map(same);
  const separated = separator === null ? '' : ` (cells are separated by ${separatorLabels[separator] ?? separator})`;
  const invalid = invalidValues.map((name) => [name, invalidLabels[name]] as const);
  const hasLines = found.format === 'csv' || found.format === 'xlsx';
  return html`<h2>Settings</h2>
    <div class="card">
      !${when(found.object === 'contacts', choice('mode', 'What to do with the records', modesFor(found)))} !${lists}
      !${choice('invalid_values', 'Values that cannot be read', invalid)}
      !${when(sheets && sheets.length > 1, choice('sheet', 'Sheet', (sheets ?? []).map(same)))}
      !${when(found.format === 'csv' && encoding, choice('encoding', `Encoding${separated}`, encodings))}
      !${when(hasLines, choice('header', 'The first line', firstLines))}
    </div>`;
}

const contactModes: readonly Choice[] = [
  ['file', 'As the file shows'],
  ['upsert', 'Change who has the same e-mail address, create the others'],
  ['create', 'Create all anew'],
];

/** Returns the mode of an import as a choice of this form, or '' if the form does not offer it. */
const storedMode = ({ mode, match }: Import): string =>
  mode === 'create' || (mode === 'upsert' && match === 'work_email') ? mode : '';

const modesFor = (found: Import): readonly Choice[] => {
  // An NDJSON file has no columns to go by.
  const choices = contactModes.slice(found.format === 'ndjson' ? 1 : 0);
  return storedMode(found) === '' ? [['', 'As you have chosen'], ...choices] : choices;
};

/**
 * Returns the mode that a form shows. If the user has not chosen a mode and the stored mode is the usual one for the
 * file, returns `file`. The mode then follows later changes of the mapping. Otherwise an import with a column of
 * addresses that is recognized later would create the stored contacts again.
 */
function shownMode(found: Import, mapping: Mapping | null, sent: Fields): string {
  const [stored, asked] = [storedMode(found), text(sent, 'mode')];
  if (found.format === 'ndjson') return stored;
  // A form is shown as it was sent. An address can be older than what is stored.
  if (asked !== '' && ('do' in sent || asked === 'file' || asked === stored)) return asked;
  return mapping && stored === (namesContacts(mapping) ? 'upsert' : 'create') ? 'file' : stored;
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
  const names = all.slice(0, maxShown);
  const shown = names.map((name): Column<object> => [
    fieldLabel(object, name),
    (item) => html`${shownValue((item as Record<string, unknown>)[name])}`,
  ]);
  const note = html`<p class="quiet">The first ${maxShown} of ${count(all.length)} fields are shown.</p>`;
  return html`!${all.length > maxShown ? note : ''} !${table<object>('First records', shown, items)}`;
}

export const shortened = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text;

export function shownValue(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(shownPart).join(', ');
  if (typeof value !== 'object' || value === null) return value === undefined ? '' : JSON.stringify(value);
  const entries = Object.entries(value);
  return entries.map(([key, one]) => (key === 'name' ? shownPart(one) : `${key}: ${shownPart(one)}`)).join(', ');
}

function shownPart(value: unknown): string {
  if (typeof value !== 'object' || value === null) return shownValue(value);
  // PostgreSQL stores the shorter name first, and people dial the country code first.
  const { country_code, ...others } = value as { country_code?: unknown };
  return Object.values({ country_code, ...others })
    .map(shownPart)
    .join(' ')
    .trim();
}

export function changesOf(preview: DetailedPreview, fields: Fields): ImportPatch {
  const values = text(fields, 'invalid_values');
  return {
    ...(values === '' ? {} : { invalid_values: values as InvalidValues }),
    ...(preview.headers ? { mapping: mappingOf(preview, fields) } : {}),
  };
}

function mappingOf(preview: DetailedPreview, fields: Fields): Record<string, MappedField> {
  const entries = preview.columns.flatMap(({ header }, i): [string, MappedField][] => {
    if (preview.headers!.indexOf(header) !== i) return [];
    const shown = preview.mapping?.[header] ?? null;
    // The form does not have all columns of a very wide file. The others stay.
    const chosen =
      `column-${i}` in fields ? chosenFor(fields, i, [fieldOfMapped(shown) ?? '', customField(header)]) : shown;
    const isChanged = JSON.stringify(chosen) !== JSON.stringify(shown);
    // The import finds the others as the page does.
    return isChanged || preview.mapping_from?.[header] === 'given' ? [[header, chosen]] : [];
  });
  return Object.fromEntries(entries);
}

/**
 * Returns the mapping that a form chooses for a column.
 * @param offered fields that the form offered and whose names can contain line breaks
 */
function chosenFor(fields: Fields, i: number, offered: readonly string[]): MappedField {
  const [field, type] = [unchanged(text(fields, `column-${i}`), offered), text(fields, `type-${i}`)];
  if (field === '') return null;
  const isTyped = customKey(field) !== undefined && (customTypes as readonly string[]).includes(type);
  return isTyped ? { field, type: type as CustomType } : field;
}

export const customField = (header: string): string =>
  header.startsWith('custom_fields.') ? header : `custom_fields.${header}`;

/**
 * Returns the changed settings of the whole file: encoding, sheet and header. They can change which columns the file
 * has.
 */
export function sourceChangesOf(
  found: Import,
  { sheet, has_header: hasHeader }: MappingState['state'],
  fields: Fields,
): ImportPatch {
  const [encoding, chosen, header] = [text(fields, 'encoding'), text(fields, 'sheet'), text(fields, 'header')];
  const isOther = encoding !== '' && (encodingNamed(encoding) ?? encoding) !== found.encoding;
  return {
    ...(isOther ? { encoding } : {}),
    ...(chosen !== '' && chosen !== sheet ? { sheet: chosen } : {}),
    ...(header !== '' && (header === 'names') !== hasHeader ? { header: header === 'names' } : {}),
  };
}

/** Returns the reasons why an import would fail as a whole or for every record. */
export const obstaclesTo = (found: Import, preview: ImportPreview): Fault[] => [
  ...preview.errors.filter(({ path }) => !path.startsWith('/records/')),
  ...missingFields(found, preview).map((field) => ({
    path: '',
    message: `no column is read as ${field}, which every new record needs`,
  })),
];

/**
 * Returns the labels of the fields that every new record needs but no column provides. Joins alternatives with "or".
 */
function missingFields(found: Import, { mapping }: ImportPreview): string[] {
  if (found.mode !== 'create' || !mapping) return [];
  const { create, needsOneOf = [] } = importedKinds[found.object];
  const covered = new Set(Object.values(mapping).map(fieldOfMapped));
  if (covered.has('_record')) return [];
  if (covered.has('full_name')) covered.add('first_name');
  if (covered.has('stage')) covered.add('stage_id');
  const needed = [...(create.required ?? []).map((field) => [field]), ...needsOneOf];
  return needed
    .filter((group) => !group.some((field) => covered.has(field)))
    .map((group) => group.map((field) => fieldWord(found.object, field)).join(' or '));
}

/** Returns true if a column has the e-mail addresses by which stored contacts are found. */
export const namesContacts = (mapping: Mapping): boolean =>
  Object.values(mapping).some((mapped) => ['work_email', '_record'].includes(fieldOfMapped(mapped) ?? ''));

export const fieldLabel = (object: ImportObject, field: string): string =>
  customKey(field) === undefined ? fieldWord(object, field) : `Your own field “${fieldWord(object, field)}”`;

/** Returns the fields to which a column can be mapped, except custom fields. They are in the order of the select. */
function fieldsToChoose(object: ImportObject): string[] {
  const names = importableNames(importedFields[object]);
  if (object === 'opportunities')
    return [...names.filter((name) => name !== 'stage_id'), ...Object.keys(opportunityFileFields.references!)];
  if (object !== 'contacts') return object === 'companies' ? [...names, 'note'] : names;
  return [
    'full_name',
    ...names.filter((name) => name !== 'company.id'),
    'company.name',
    'company.industry',
    'company.domain',
    'company.external_id',
    'company.id',
    'note',
  ];
}

/**
 * Replaces field names such as `work_email` in a message with their labels. Names that are plain words, such as
 * `gender`, stay.
 */
export function inWords(object: ImportObject, message: string): string {
  const texts = message.split(/("(?:[^"\\]|\\.)*")/); // values are in quotes
  const names = new RegExp(
    String.raw`(?<![\w.])(?:custom_fields\.[^:;]+|${fieldsToChoose(object)
      .filter((name) => /[._]/.test(name))
      .join('|')})(?![\w.]*\w)`,
    'g',
  );
  return texts.map((part, i) => (i % 2 ? part : part.replace(names, (name) => fieldWord(object, name)))).join('');
}

const originLabels: Record<MappingOrigin, string> = {
  given: 'as chosen',
  name: 'by its name',
  remembered: 'as in your last import',
  guess: 'guessed',
};
