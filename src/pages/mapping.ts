import type { Fault } from '../errors.ts';
import type { DetailedPreview } from '../jobs/preview-import.ts';
import type { ImportState } from '../queries/jobs/imports.ts';
import type { PhoneNumber } from '../text/fold.ts';
import { customKey } from '../schemas/filters.ts';
import { fieldOfMapped, importedKinds, type Mapping, type Import, type InvalidValues } from '../schemas/imports.ts';
import type { ImportPatch, ImportPreview, MappedField, ImportObject, MappingOrigin } from '../schemas/imports.ts';
import { select, controlsFor, hidden, enterButton, type Choice } from './base/forms.ts';
import { text, unchanged, type Fields } from './base/requests.ts';
import { when, sideBySide, table, html, bullets, folded, quiet, linkButton } from './base/html.ts';
import { count, counted, type Html, type Column } from './base/html.ts';
import { fieldWord, phoneNumber, typeWords } from './base/words.ts';
import { isNamedBy } from '../files/guess-columns.ts';
import { addedHeaders } from '../files/layout.ts';
import { encodingNamed, importColumn } from '../files/encodings.ts';
import type { DeclaredField } from '../schemas/wire.ts';
import { importableNames, importedFields, opportunityFileFields } from '../schemas/files.ts';

interface MappingState {
  state: Pick<ImportState, 'sheet' | 'has_header'>;
  lists: Html;
  page: number;
  pager: Html;
  repeated: string;
  sent: Fields;
}

export const mappingForm = (found: Import, preview: DetailedPreview, shown: MappingState): Html =>
  html`!${enterButton(savesText)} !${remarks(found, preview, shown.repeated)}
    !${preview.headers ? columns(found, preview, shown) : ''} !${settings(found, preview, shown)}
    !${when(preview.records.length > 0, records(found, preview))}
    <div class="buttons stay">
      !${
        preview.records.length === 0
          ? html`!${linkButton('Upload another file', '/app/imports/new')} !${saveButton}`
          : html`<button name="do" value="check">Check the file</button>
              <button name="do" value="start" class="link">Import without a check</button>`
      }
    </div>`;

const savesText = 'Update the preview';
const saveButton = html`<button name="do" value="save" class="link">${savesText}</button>`;

function remarks(found: Import, preview: DetailedPreview, repeated: string): Html {
  const isOfRecord = ({ path }: Fault) => path.startsWith('/records/');
  // `otherMode` counts these records.
  const isTold = ({ path, message }: Fault) =>
    preview.unmatched > 0 && found.mode === 'upsert' && path.endsWith(`/${found.match}`) && message === 'is missing';
  const lists: [title: string, faults: Fault[]][] = [
    ['Some letters look wrong:', preview.warnings.filter(({ path }) => path === '/encoding')],
    ['With these settings, something is wrong:', obstaclesTo(found, preview)],
    ['First records that would be left out:', preview.errors.filter((one) => isOfRecord(one) && !isTold(one))],
    ['What is left out of the file:', preview.warnings.filter(({ path }) => path === '' || path === '/mapping')],
    ['Values of the first records that will be left out:', preview.warnings.filter(isOfRecord)],
  ];
  const shown = lists.map(([title, faults]) => {
    const texts = faults.slice(0, 100).map((fault) => html`${faultText(found.object, preview.declared, fault)}`);
    return when(texts.length > 0, html`${title} !${oneOrMore(texts)}`);
  });
  const others = [...shown.splice(2), html`${repeated}`].filter((line) => line !== '');
  const lines = [...shown, otherMode(found, preview)].filter((line) => line !== '');
  return html`!${when(lines.length > 0, html`<div class="notice warning" role="status">!${oneOrMore(lines)}</div>`)}
  !${when(others.length > 0, folded(`${counted(others.length, 'remark')} on what is left out or repeated`, bullets(others)))}`;
}

const oneOrMore = (lines: readonly Html[]): Html => (lines.length > 1 ? bullets(lines) : lines.join(''));

/** Returns what the mode of the import does wrong with some of the first records, and a button that chooses another. */
function otherMode({ object, mode, match }: Import, { read, unmatched, creatable, known }: DetailedPreview): Html {
  if (known === 0 && (unmatched === 0 || mode !== 'upsert')) return '';
  const value = fieldWord(object, match ?? 'work_email').toLowerCase();
  const other = known > 0 ? 'upsert work_email' : 'create';
  const some = creatable === unmatched ? 'them' : `${count(creatable)} of them`;
  const later = when(creatable > 0, ` After the import, one click creates ${some} as new.`);
  const of = `of the first ${counted(read, 'record')}`;
  const what =
    known > 0
      ? `Already in your contacts: ${count(known)} ${of}. They would be there twice.`
      : `Without a valid ${value}: ${count(unmatched)} ${of}. This import finds the ${object} that you have by it, so it leaves them out.${later}`;
  const lead = known > 0 ? 'Better:' : `Are all ${object} of the file new to you?`;
  const button = html`<p>
    ${lead} <button name="do" value="save ${other}" class="secondary outline">${modeWord(object, other)}</button>
  </p>`;
  return html`${what} !${when(known + creatable > 0, button)}`;
}

function faultText(object: ImportObject, declared: readonly DeclaredField[], { path, message }: Fault): string {
  const [, what, index, ...fields] = path.split('/');
  const words = inWords(object, message, declared);
  if (what !== 'records') return words;
  const field = fields.length === 0 ? '' : `${fieldWord(object, fields.join('.'), declared)}: `;
  return `Record ${Number(index) + 1}: ${field}${words}`;
}

export const columnsAtOnce = 40;

/** Returns the columns of a file that a user decides about, with their places in it. */
export const columnsToDecide = ({ columns }: Pick<DetailedPreview, 'columns'>) =>
  columns.map((column, i) => ({ ...column, i })).filter(({ header }) => !addedHeaders.includes(header));

function columns(found: Import, preview: DetailedPreview, { page, pager, sent }: MappingState): Html {
  const own = columnsToDecide(preview);
  const [all, first] = [own.length, (page - 1) * columnsAtOnce];
  const shown = own.slice(first, first + columnsAtOnce);
  const range = `Columns ${first + 1} to ${first + shown.length} of ${count(all)}`;
  const note = quiet(`${range}. “${savesText}” saves what you choose here; then turn to the others.`);
  const told = Object.entries(origins).map(([origin, words]) => {
    const names = shown.filter(({ header }) => preview.mapping_from?.[header] === origin);
    return when(names.length > 0, quiet(`${words}: ${names.map(({ header }) => `“${header}”`).join(', ')}.`));
  });
  return html`<h2>Columns</h2>
    !${hidden({ page: String(page) })} !${when(all > columnsAtOnce, note)} !${told}
    !${quiet(`To keep a column that is left out, choose a field for it${hasOwnFields(found.object) ? ', such as a new one of your own' : ''}.`)}
    !${table('Columns', columnsOf(found, preview, sent), shown)} !${pager}`;
}

const hasOwnFields = (object: ImportObject): boolean => importColumn(object, customField('x')) !== undefined;

type Numbered = ReturnType<typeof columnsToDecide>[number];

function columnsOf({ object }: Import, preview: DetailedPreview, sent: Fields): Column<Numbered>[] {
  const readAs = ({ header, type, i }: Numbered): Html => {
    if (preview.headers!.indexOf(header) !== i)
      return html`<span class="quiet">left out: another column has this header</span>`;
    const name = `column-${i}`;
    const field = name in sent ? text(sent, name) : (fieldOfMapped(preview.mapping?.[header] ?? null) ?? '');
    const key = customKey(field);
    const kind = preview.declared.find((one) => one.key === key)?.type ?? (type === 'instant' ? 'date' : type);
    const as = key !== undefined && kind ? typeWords[kind].toLowerCase() : '';
    const own = preview.declared.map(({ key, label }): Choice => [`custom_fields.${key}`, label]);
    const whose = ['name', 'remembered'].includes(preview.mapping_from?.[header] ?? '') ? 'Your own' : 'New';
    const wordOf = (one: string) =>
      customKey(one) === undefined ? fieldWord(object, one) : `${whose} field “${fieldWord(object, one)}”`;
    const choices = choicesFor(object, preview.declared, header, field).map((one): Choice => [one, wordOf(one)]);
    const spoken = html`name="${name}" aria-label="Field of the column ${header}"`;
    return html`!${select(spoken, [['', 'leave it out'], ...choices], field, own)} <small class="quiet">${as}</small>`;
  };
  const samplesOf = ({ samples }: Numbered): Html => html`${samples.map((one) => shortened(one, 30)).join(' · ')}`;
  return [
    ['Column of the file', ({ header }) => html`${header === '' ? '(no header)' : header}`],
    ['Values', samplesOf, 'quiet'],
    ['Is read as', readAs],
  ];
}

function choicesFor(object: ImportObject, declared: readonly DeclaredField[], header: string, field: string): string[] {
  const names = fieldsToChoose(object);
  const custom = customField(header);
  const isNew =
    hasOwnFields(object) && customKey(custom) !== undefined && !declared.some((one) => isNamedBy(one, header));
  const others = [isNew ? custom : '', field].filter((name) => name !== '' && !names.includes(name));
  const isOwn = (name: string) => declared.some(({ key }) => name === `custom_fields.${key}`);
  return [...new Set([...others, ...names])].filter((name) => !isOwn(name));
}

const invalidLabels: Record<InvalidValues, string> = { skip: 'leave out the value', fail: 'leave out the record' };

const commonEncodings = 'utf-8 windows-1252 iso-8859-2 windows-1250 windows-1251 macintosh utf-16le'.split(' ');

function settings(found: Import, preview: DetailedPreview, { state, lists, sent }: MappingState): Html {
  const { sheets, encoding } = preview;
  const values = {
    mode: text(sent, 'mode') || modeOf(found),
    invalid_values: found.invalid_values,
    sheet: state.sheet ?? sheets?.[0],
    encoding: encoding ?? '',
    header: state.has_header ? 'names' : 'record',
  };
  const { choice } = controlsFor(values, {});
  const same = (name: string): Choice => [name, name];
  const encodings = [...new Set([values.encoding, ...commonEncodings])].map(same);
  return html`<h2>Settings</h2>
    <div class="card">
      !${choice('mode', 'What to do with the records', modesFor(found.object))} !${lists}
      !${sideBySide(
        choice('invalid_values', 'Values that cannot be read', invalidLabels),
        when(sheets && sheets.length > 1, choice('sheet', 'Sheet', (sheets ?? []).map(same))),
        when(found.format === 'csv' && encoding, choice('encoding', 'Encoding', encodings)),
        when(found.format !== 'ndjson', choice('header', 'The first line', firstLines)),
      )}
    </div>`;
}

export const modeOf = ({ mode, match }: Pick<Import, 'mode' | 'match'>): string =>
  match === null ? mode : `${mode} ${match}`;

export function modesFor(object: ImportObject): Choice[] {
  const matches = importedKinds[object].matches.toReversed();
  const same = (match: string): string => `those with the same ${fieldWord(object, match).toLowerCase()}`;
  const own = matches.filter((match) => match !== 'id');
  return [
    ...own.map((match): Choice => [`upsert ${match}`, `Change ${same(match)}, create the others`]),
    ...matches.map((match): Choice => [`update ${match}`, `Only change ${same(match)}`]),
    ['create', 'Create every record as new'],
  ];
}

export const modeWord = (object: ImportObject, mode: string): string =>
  modesFor(object).find(([value]) => value === mode)?.[1] ?? '';

const firstLines = { names: 'names the columns', record: 'is a record already' };

function records({ object }: Import, { records: items, declared }: DetailedPreview): Html {
  const rows = items.map((item): Record<string, unknown> => {
    const { custom_fields: custom, ...others } = item as { custom_fields?: object };
    const own = Object.entries(custom ?? {}).map(([key, value]) => [`custom_fields.${key}`, value]);
    return { ...others, ...Object.fromEntries(own) };
  });
  const fields = fieldsToChoose(object).map((field) => field.split('.')[0]!);
  const names = [...new Set([...fields, ...rows.flatMap((row) => Object.keys(row))])];
  const shown = names.filter((name) => rows.some((row) => name in row)).slice(0, 40);
  const valueOf = (name: string) => (row: (typeof rows)[number]) => html`${shownValue(row[name])}`;
  const columns = shown.map((name) => [fieldWord(object, name, declared), valueOf(name)] as const);
  return html`<div class="row apart">
      <h2>The first records</h2>
      !${saveButton}
    </div>
    !${table('First records', columns, rows)}
    !${quiet('The check writes nothing. It shows what would be new, changed and left out; then one click imports the file.')}`;
}

export const shortened = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text;

function shownValue(value: unknown): string {
  if (value === undefined || typeof value === 'string') return value ?? '';
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return 'country_code' in value ? phoneNumber(value as PhoneNumber) : Object.values(value).map(shownValue).join(', ');
}

export function changesOf(preview: DetailedPreview, fields: Fields): ImportPatch {
  const values = text(fields, 'invalid_values') as InvalidValues | '';
  const mapping = preview.columns.flatMap(({ header }, i): [string, MappedField][] => {
    if (preview.headers?.indexOf(header) !== i) return [];
    const shown = preview.mapping?.[header] ?? null;
    const [stored, name] = [fieldOfMapped(shown) ?? '', `column-${i}`];
    // The form does not have all columns of a very wide file. The others stay.
    const field = name in fields ? unchanged(text(fields, name), [stored, customField(header)]) : stored;
    const isChanged = field !== stored;
    // The import finds the others as the page does.
    return isChanged || preview.mapping_from?.[header] === 'given' ? [[header, isChanged ? field || null : shown]] : [];
  });
  return {
    ...(values && { invalid_values: values }),
    ...(preview.headers && { mapping: Object.fromEntries(mapping) }),
  };
}

export const customField = (header: string): string =>
  header.startsWith('custom_fields.') ? header : `custom_fields.${header}`;

/**
 * Returns the changed settings of the whole file: encoding, sheet and header. They can change which columns the file
 * has.
 */
export function sourceChangesOf(found: Import, state: MappingState['state'], fields: Fields): ImportPatch {
  const [encoding, sheet, given] = [text(fields, 'encoding'), text(fields, 'sheet'), text(fields, 'header')];
  const header = given === 'names';
  return {
    ...(encoding !== '' && (encodingNamed(encoding) ?? encoding) !== found.encoding && { encoding }),
    ...(sheet !== '' && sheet !== state.sheet && { sheet }),
    ...(given !== '' && header !== state.has_header && { header }),
  };
}

/** Returns the reasons why an import would fail as a whole or for every record. */
export const obstaclesTo = (found: Import, preview: ImportPreview): Fault[] => [
  ...preview.errors.filter(({ path }) => !path.startsWith('/records/')),
  ...(preview.records.length + preview.errors.length > 0 ? [] : [{ path: '', message: 'the file has no records' }]),
  ...missingFields(found, preview).map((field) => ({
    path: '',
    message: `no column is read as ${field}, which every new record needs`,
  })),
];

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

/** Returns the fields to which a column can be mapped, except custom fields. They are in the order of the select. */
function fieldsToChoose(object: ImportObject): string[] {
  const names = importableNames(importedFields[object]);
  if (object === 'opportunities')
    return [...names.filter((name) => name !== 'stage_id'), ...Object.keys(opportunityFileFields.references!)];
  if (object !== 'contacts') return object === 'companies' ? [...names, 'note'] : names;
  const ofCompany = ['name', 'industry', 'domain', 'external_id', 'id'].map((name) => `company.${name}`);
  return ['full_name', ...names.filter((name) => name !== 'company.id'), ...ofCompany, 'note'];
}

/**
 * Replaces field names such as `work_email` in a message with their labels. Names that are plain words, such as
 * `gender`, stay.
 */
export function inWords(object: ImportObject, message: string, declared: readonly DeclaredField[] = []): string {
  const texts = message.split(/("(?:[^"\\]|\\.)*")/); // values are in quotes
  const known = fieldsToChoose(object).filter((name) => /[._]/.test(name));
  const names = new RegExp(String.raw`(?<![\w.])(?:custom_fields\.[^:;]+|${known.join('|')})(?![\w.]*\w)`, 'g');
  const inWord = (name: string) => fieldWord(object, name, declared);
  return texts.map((part, i) => (i % 2 ? part : part.replace(names, inWord))).join('');
}

/** Where the fields of columns come from that a user has not chosen. */
const origins: Partial<Record<MappingOrigin, string>> = {
  remembered: 'Read as last time',
  guess: 'Guessed by name or values, so please look at them',
};
