import type { Database } from '../../database/db.ts';
import type { Fault } from '../../errors.ts';
import { columnNamed } from '../../files/columns.ts';
import { previewImport } from '../../jobs/imports/preview-import.ts';
import { fileFields } from '../../jobs/imports/start-import.ts';
import type { VisibleImports } from '../../queries/imports/imports.ts';
import { fileCompanies, fileContacts } from '../../schemas/batches.ts';
import { companyParts, importableNames } from '../../schemas/files.ts';
import type { Import, ImportObject, ImportPatch, ImportPreview, Mapping } from '../../schemas/imports.ts';
import { option, text, type Fields } from '../base/forms.ts';
import { count, html, table, type Html } from '../base/html.ts';

/** An import's id, and the kinds of imports that the user may see. */
interface ImportRef {
  id: string;
  visible: VisibleImports;
}

/**
 * Returns a preview of an import's file (`preview`), and the user's changes to the column mapping (`patch`).
 * @param fields of the submitted form; undefined if there are no changes
 */
export async function readPreview(
  db: Database,
  customerId: string,
  ref: ImportRef,
  fields?: Fields,
): Promise<{ preview: ImportPreview; patch: ImportPatch }> {
  const preview = await previewImport(db, customerId, ref);
  if (!fields || !preview.headers) return { preview, patch: {} };
  const mapping = preview.headers.flatMap((header, i) => {
    const name = `column-${i}`;
    // The form does not have all columns of a very wide file. The others stay.
    const field = name in fields ? text(fields, name) || null : (preview.mapping?.[header] ?? null);
    return field === header ? [] : [[header, field] as const];
  });
  return { preview, patch: { mapping: Object.fromEntries(mapping) } };
}

/** Returns why an import with its current settings cannot succeed, as a whole or in any record. */
export const obstaclesTo = (found: Import, preview: ImportPreview): Fault[] => [
  ...preview.errors.filter(({ path }) => !path.startsWith('/records/')),
  ...missingFields(found, preview).map((field) => ({
    path: '',
    message: `no column is read as ${field}, which every new record needs`,
  })),
];

/** Returns fields, or groups of them, that every new record must have and to which no column is mapped. */
function missingFields(found: Import, { mapping }: ImportPreview): string[] {
  if (found.mode !== 'create' || !mapping) return [];
  const { create, needsOneOf = [] } = found.object === 'contacts' ? fileContacts : fileCompanies;
  const covered = new Set(Object.values(mapping));
  const needed = [...(create.required ?? []).map((field) => [field]), ...needsOneOf];
  return needed.filter((group) => !group.some((field) => covered.has(field))).map((group) => group.join(' or '));
}

/** Record fields by other names that users write in headers, in lower case and with `_` between words. */
const synonyms = new Map(
  Object.entries({
    e_mail: 'work_email',
    email: 'work_email',
    email_address: 'work_email',
    firstname: 'first_name',
    lastname: 'last_name',
    surname: 'last_name',
    title: 'job_title',
    phone: 'phone_numbers',
    telephone: 'phone_numbers',
    company: 'company.name',
    company_name: 'company.name',
    country: 'location_country',
  }),
);

/**
 * Guesses the field of each column whose header is not a field name, such as `work_email` for `E-mail`. Returns
 * undefined if none can be guessed.
 */
export async function suggestMapping(
  db: Database,
  customerId: string,
  ref: ImportRef,
  object: ImportObject,
): Promise<Mapping | undefined> {
  const guesses = guessFields(await previewImport(db, customerId, ref), object);
  return Object.keys(guesses).length > 0 ? guesses : undefined;
}

function guessFields({ headers, mapping }: ImportPreview, object: ImportObject): Mapping {
  const taken = new Set(Object.values(mapping ?? {}));
  const guesses: Mapping = {};
  for (const header of headers ?? []) {
    if (mapping![header] !== null || header.length > 255) continue;
    const words = header
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_')
      .replaceAll(/^_|_$/g, '');
    const field = [words, synonyms.get(words)].find((name) => name && columnNamed(fileFields[object], name));
    if (field === undefined || taken.has(field)) continue;
    guesses[header] = field;
    taken.add(field);
  }
  return guesses;
}

/** Returns the file's preview, with controls to map its columns and to start the import. */
export const mappingForm = (found: Import, preview: ImportPreview, isChangeable: boolean): Html =>
  html`!${faultList(found, preview)} !${preview.headers ? columns(found.object, preview, isChangeable) : ''}
    <h2>The first records</h2>
    !${preview.records.length === 0 ? html`<p class="quiet">The file has no records.</p>` : records(preview)}
    !${
      isChangeable
        ? html`<div class="buttons">
            <button name="do" value="start">Start the import</button>
            <button name="do" value="check" class="secondary outline">Check only, write nothing</button>
            !${
              preview.headers
                ? html`<button name="do" value="save" class="secondary outline">Save and preview again</button>`
                : ''
            }
          </div>`
        : ''
    }`;

function faultList(found: Import, preview: ImportPreview): Html {
  const ofRecords = preview.errors.filter(({ path }) => path.startsWith('/records/'));
  const faults = [...obstaclesTo(found, preview), ...ofRecords];
  if (faults.length === 0) return '';
  return html`<div class="notice warning" role="status">
    <p>With these settings, something is wrong:</p>
    <ul>
      !${faults.map((fault) => html`<li>${faultText(fault)}</li>`)}
    </ul>
  </div>`;
}

/** Contains the number of the record, counted from 1. */
function faultText({ path, message }: Fault): string {
  const [, list, index, ...fields] = path.split('/');
  return list === 'records' ? `Record ${Number(index) + 1}: ${fields.join('.')} ${message}` : message;
}

/** How many columns of a CSV file, and fields of preview records, a page shows. */
const mostShown = 100;

/** Says how many columns or fields the file has, if the page does not show all. Else an empty string. */
const hiddenNote = (what: string, all: number): Html =>
  all <= mostShown
    ? ''
    : html`<p class="quiet">
        The file has ${count(all)} ${what}. The first ${mostShown} are shown here; the API shows and changes all.
      </p>`;

/** Returns a table of the columns of a CSV file and the fields to which they are mapped. */
function columns(object: ImportObject, { headers, mapping }: ImportPreview, isChangeable: boolean): Html {
  const parts = object === 'contacts' ? Object.keys(companyParts) : [];
  const names = [...new Set([...importableNames(fileFields[object]), ...parts])];
  const rows = headers!.slice(0, mostShown).map((header, i) => {
    const field = mapping![header] ?? '';
    return html`<tr>
      <td>${header}</td>
      <td>
        !${
          isChangeable
            ? html`<select name="column-${i}" aria-label="Field of the column ${header}">
                !${option('', 'leave it out', field)}
                !${choicesFor(header, field, names).map((name) => option(name, name, field))}
              </select>`
            : html`${field || 'left out'}`
        }
      </td>
    </tr>`;
  });
  return html`<h2>Columns</h2>
    !${hiddenNote('columns', headers!.length)} !${table('Columns', ['Column of the file', 'Is read as'], rows)}`;
}

/** Returns the standard fields, and a custom field with the column's name. */
function choicesFor(header: string, field: string, names: readonly string[]): string[] {
  const custom = header.startsWith('custom_fields.') ? header : `custom_fields.${header}`;
  const others = [custom.length <= 64 ? custom : '', field].filter((name) => name !== '' && !names.includes(name));
  return [...names, ...new Set(others)];
}

function records({ records: items }: ImportPreview): Html {
  const all = [...new Set(items.flatMap((item) => Object.keys(item)))];
  const names = all.slice(0, mostShown);
  const rows = items.map(
    (item) =>
      html`<tr>
        !${names.map((name) => html`<td>${shownValue((item as Record<string, unknown>)[name])}</td>`)}
      </tr>`,
  );
  return html`!${hiddenNote('fields', all.length)} !${table('First records', names, rows)}`;
}

const shownValue = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
