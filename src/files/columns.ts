import { isDeepStrictEqual } from 'node:util';
import type { TSchema } from '@sinclair/typebox';
import { parseJson } from '../text/json.ts';
import { trimText, type PhoneNumber } from '../text/fold.ts';
import { phoneText } from './phones.ts';
import { InvalidCell, isNothing, quoted, type ValueKind } from './read-value.ts';
import { validationFailed, type Fault } from '../errors.ts';
import * as files from '../schemas/files.ts';
import { formats, type Format } from '../schemas/formats.ts';
import { customKey } from '../schemas/filters.ts';
import { priorities } from '../schemas/opportunities.ts';
import { maxAddressLength } from '../text/domains.ts';
import { choicesBy, unambiguous, type Choices, type ReadColumn, type ReadType } from './values.ts';

/**
 * Parses JSON text from a file with the checks of JSON requests. Allows at most 20,000 values in the text, because more
 * would block the event loop.
 */
export const parseCell = (text: string): ReturnType<typeof parseJson> => parseJson(text, 20_000);

/** A cell of a CSV or XLSX file. An unquoted `\N` means null, a quoted `\N` is the text itself. */
export interface Cell {
  text: string;
  isQuoted: boolean;
  /**
   * Set only for cells of XLSX sheets. `error`: the cell shows an error such as `#N/A`. `formula`: the file has no
   * stored result for the cell's formula.
   */
  broken?: 'error' | 'formula';
}

/**
 * How values of a column are converted to cells and back.
 *
 * - `text`: text, unchanged.
 * - `exact`: text that is compared exactly. Quoted white space is kept, and a quoted `n/a` is a value.
 * - `instant`: a time as ISO 8601 text.
 * - `number`: a JSON number.
 * - `texts`: an array of strings, separated by `;`.
 * - `own ids`: an array of external ids of other records, separated by `;`. Used only in imports.
 * - `phones`: an array of phone numbers, separated by `;`, or as JSON.
 * - `json`: any JSON value.
 * - `custom`: the value of a custom field. The cell is read as text, and later converted to the column's type.
 * - `sheet number`: a number of a custom field in an XLSX sheet. An unquoted cell is read as a JSON number.
 */
export type CellType =
  'text' | 'exact' | 'instant' | 'number' | 'texts' | 'own ids' | 'phones' | 'json' | 'custom' | 'sheet number';

interface Rules {
  write(value: never): string;
  /**
   * Converts a cell that is not empty and not `\N`. Returns undefined if the cell has no value, such as `n/a`.
   * @throws InvalidCell
   */
  read(cell: Cell): unknown;
  /** Returns true if the written cell needs quotes. Without quotes, the text `true` would be read as a boolean. */
  isQuoted?(value: never): boolean;
}

const asItIs: Rules = { write: (text: string) => text, read: ({ text }) => text };

const custom: Rules = {
  write: (value: string | number | boolean) => (typeof value === 'string' ? value : JSON.stringify(value)),
  read: ({ text }) => text,
  isQuoted: (value: unknown) => typeof value === 'string' && mayBeLiteral(value),
};

const rules: Record<CellType, Rules> = {
  text: asItIs,
  exact: {
    write: (text: string) => text,
    read: ({ text, isQuoted }) => {
      const trimmed = trimText(text);
      if (trimmed === '' || (!isQuoted && isNothing(trimmed))) return undefined;
      return isQuoted ? text : trimmed;
    },
    isQuoted: (text: string) => text !== text.trim() || isNothing(text),
  },
  instant: asItIs,
  number: {
    // People write `1.249` for two numbers, so an import asks which one it is.
    write: (number: number) => unambiguous(JSON.stringify(number), '.'),
    // Text that is not a number stays text, so that the schema of the field rejects it.
    read: ({ text }) => (isNumber(trimText(text)) ? toNumber(text) : text),
  },
  texts: {
    write: (texts: string[]) => texts.join(';'),
    read: ({ text }) => someOf(parts(text).filter((part) => !isNothing(part))),
  },
  // A JSON array for ids with a semicolon.
  'own ids': {
    ...asItIs,
    read: ({ text, isQuoted }) => {
      const isJson = trimText(text).startsWith('[');
      const ids = isJson ? readJson(text) : someOf(parts(text).filter((part) => isQuoted || !isNothing(part)));
      return Array.isArray(ids) ? ids.map((external_id: unknown) => ({ external_id })) : ids;
    },
  },
  phones: { write: writePhones, read: ({ text }) => readPhones(text) },
  json: {
    write: (value: unknown) => JSON.stringify(value),
    read: ({ text }) => (isNothing(trimText(text)) && text !== 'null' ? undefined : readJson(text)),
  },
  custom,
  'sheet number': { ...custom, read: ({ text, isQuoted }) => (!isQuoted && isNumber(text) ? toNumber(text) : text) },
};

const nullText = String.raw`\N`;

export function writeCell(type: CellType, value: unknown): Cell {
  if (value === undefined) return { text: '', isQuoted: false };
  if (value === null) return { text: nullText, isQuoted: false };
  const { write, isQuoted } = rules[type];
  const text = write(value as never);
  return { text, isQuoted: text === nullText || isQuoted?.(value as never) === true };
}

/**
 * Converts a cell to a value. Returns undefined for a cell without a value, null for an unquoted `\N`.
 * @throws InvalidCell
 */
export function readCell(type: CellType, cell: Cell): unknown {
  if (cell.text === '') return undefined;
  return !cell.isQuoted && cell.text === nullText ? null : rules[type].read(cell);
}

export const isNumber = (text: string): boolean => /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text);

/** Returns true for a number, `true` or `false`. If such a text is a string, it must be quoted. */
export const mayBeLiteral = (text: string): boolean => text === 'true' || text === 'false' || isNumber(text);

function toNumber(text: string): number {
  const number = Number(trimText(text));
  if (!Number.isFinite(number)) throw new InvalidCell('is a number that is too large');
  return number;
}

function readJson(text: string): unknown {
  // Spreadsheets write booleans in capitals.
  const { value, fault } = parseCell(trimText(text).replace(/^(?:true|false)$/i, (word) => word.toLowerCase()));
  if (fault !== undefined) throw new InvalidCell(fault.startsWith('is not valid') ? `${quoted(text)} ${fault}` : fault);
  return value;
}

const maxParts = 1_000;

/**
 * Splits a cell at `;`, or at `:::` as Google's exports do. Trims the parts and drops empty ones.
 * @throws InvalidCell if there are more than `maxParts` parts
 */
function parts(text: string): string[] {
  const all = text.split(/;|:::/, maxParts + 1);
  if (all.length > maxParts) throw new InvalidCell(`has more than ${maxParts} values`);
  return all.map(trimText).filter((part) => part !== '');
}

/** Returns undefined for an empty list: a cell such as `;` or `n/a` has no value. */
const someOf = (texts: string[]): string[] | undefined => (texts.length > 0 ? texts : undefined);

/**
 * Returns the cell text of phone numbers, such as `+49 30123456;+44 20123456`. Returns JSON if the joined text would be
 * read back as other numbers.
 */
function writePhones(phones: PhoneNumber[]): string {
  const text = phones.map(phoneText).join(';');
  return text !== '' && !text.startsWith('[') && isDeepStrictEqual(parts(text).map(readPhone), phones.map(plain))
    ? text
    : JSON.stringify(phones);
}

const plain = ({ country_code, number }: PhoneNumber): PhoneNumber => ({ country_code, number });

const readPhones = (text: string): unknown =>
  trimText(text).startsWith('[') ? readJson(text) : parts(text).map(readPhone);

/** Splits `+49 30123456` into country code and number. Without a `+`, the whole text is the number. */
function readPhone(text: string): PhoneNumber {
  const [, country_code = '', number = ''] = /^(\+\S*)?\s*(.*)$/s.exec(text)!;
  return { country_code, number };
}

export const columnLetters = (index: number): string =>
  (index < 26 ? '' : columnLetters(Math.floor(index / 26) - 1)) + String.fromCharCode(65 + (index % 26));

export interface FileColumn extends ReadColumn {
  name: string;
  header: string;
  type: CellType;
  /** Path of the value in a response: a field, or a field and a property, such as `['custom_fields', 'region']`. */
  shown: Path;
  /** False: the API rejects null for the field, so exports omit null. Exported records can then be sent to the API. */
  isNullable: boolean;
  /** False: the API rejects `""` for the field, so exports omit `""`. */
  mayBeEmpty: boolean;
}

type Path = readonly [field: string, part?: string];

/**
 * Returns the columns of an export.
 * @param custom custom fields of the records. Each gets a column
 * @param hasTitles true if the header has labels instead of field names
 * @throws DomainError `validation_failed` with one fault for each invalid field name
 */
export function columnsOf(
  fields: files.FileFields,
  selected: files.GivenFields,
  format: files.ExportFormat,
  custom: readonly LabelledKey[] = [],
  hasTitles = selected === 'readable' && format === 'xlsx',
): FileColumn[] {
  const { names, faults } = readFields(fields, selected, '/fields');
  if (faults.length > 0) throw validationFailed(faults);
  const columns = [...names, ...custom.map(({ key }) => `custom_fields.${key}`)]
    .flatMap((name) => (name === 'company' && format !== 'ndjson' ? Object.keys(files.companyParts) : [name]))
    .map((name) => columnOf(fields, name));
  return hasTitles ? withTitles(fields, columns, custom) : columns;
}

export interface LabelledKey {
  key: string;
  label: string;
}

/**
 * Sets headers for people: labels in place of field names. A custom field gets its key if another column already has
 * its label.
 */
function withTitles(
  { table }: files.FileFields,
  columns: readonly FileColumn[],
  custom: readonly LabelledKey[],
): FileColumn[] {
  const labels = new Map(custom.map(({ key, label }) => [key, label]));
  const isBuiltIn = ({ name }: FileColumn): boolean => customKey(name) === undefined;
  const folded = (title: string): string => title.trim().toLowerCase();
  const taken = new Set(columns.filter(isBuiltIn).map(({ name }) => folded(table[name]!.label)));
  return columns.map((column) => {
    const key = customKey(column.name);
    if (key === undefined) return { ...column, header: table[column.name]!.label };
    const header = [labels.get(key)!, key].find((title) => !taken.has(folded(title))) ?? column.name;
    taken.add(folded(header));
    return { ...column, header };
  });
}

export function readFields(
  fields: files.FileFields,
  selected: unknown,
  pointer: string,
): { names: string[]; faults: Fault[] } {
  if (selected === 'importable') return { names: files.importableNames(fields), faults: [] };
  if (selected === 'readable') return { names: files.readableNames(fields), faults: [] };
  if (selected === 'all') return { names: Object.keys(fields.shown.properties), faults: [] };
  if (!Array.isArray(selected) || selected.length === 0 || selected.length > files.maxFileFields) {
    const sets = files.fieldSets.map((name) => `"${name}"`).join(', ');
    const message = `must be ${sets} or an array of 1 to ${files.maxFileFields} names of fields`;
    return { names: [], faults: [{ path: pointer, message }] };
  }
  const faults = selected.flatMap((name: unknown, i) => {
    const message = faultOf(fields, selected, name, i);
    return message === undefined ? [] : [{ path: `${pointer}/${i}`, message }];
  });
  return { names: selected as string[], faults };
}

function faultOf(fields: files.FileFields, selected: readonly unknown[], name: unknown, i: number): string | undefined {
  if (typeof name !== 'string' || !files.isFileField(fields, name))
    return `is not a field; allowed are ${[...files.namesOf(fields), ...(files.hasCustomFields(fields) ? ['custom_fields.<key>'] : [])].join(', ')}`;
  if (selected.indexOf(name) < i) return 'is named twice';
  const whole = ['company', 'custom_fields'].find((field) => name.startsWith(`${field}.`) && selected.includes(field));
  return whole === undefined ? undefined : `is a part of ${whole}, which is named too`;
}

/** Returns the column of a field. Returns undefined if an import cannot write the field. */
export const columnNamed = (fields: files.FileFields, name: string): FileColumn | undefined =>
  (files.isFileField(fields, name) && name !== 'custom_fields.__proto__') ||
  (fields.noun === 'contacts' && Object.hasOwn(files.companyKeys, name)) ||
  Object.hasOwn(fields.references ?? {}, name)
    ? columnOf(fields, name)
    : undefined;

/** Returns the column of a field. Unless `rest` says otherwise, the API rejects null and `""` for the field. */
const writtenColumn = (name: string, item: Path, rest: Pick<FileColumn, 'type'> & Partial<FileColumn>): FileColumn => ({
  name,
  header: name,
  shown: item,
  item,
  isNullable: false,
  mayBeEmpty: false,
  ...rest,
});

export const fullNameColumn = writtenColumn('full_name', ['full_name'], { type: 'text', kind: 'full name' });

export const noteColumn = writtenColumn('note', ['note'], { type: 'text', kind: 'text', maxLength: 10_000 });

function columnOf(fields: files.FileFields, name: string): FileColumn {
  const key = customKey(name);
  if (key !== undefined) return writtenColumn(name, ['custom_fields', key], { type: 'custom', mayBeEmpty: true });
  const reference = fields.references?.[name];
  if (reference) {
    const { type, item } = reference;
    return writtenColumn(name, item, { type, kind: type === 'text' ? 'text' : undefined, maxLength: 255 });
  }
  if (Object.hasOwn(partsOfCompany, name)) {
    const part = partsOfCompany[name as keyof typeof partsOfCompany];
    // Not `name`: all contacts whose company is `-` would get one company.
    const rules =
      part === externalId
        ? ({ type: 'exact', maxLength: 255 } as const)
        : part === 'domain'
          ? ({ type: 'text', kind: 'domain', maxLength: maxAddressLength } as const)
          : ({ type: 'text', kind: 'text', maxLength: 255 } as const);
    return writtenColumn(name, ['company', name.slice('company.'.length)], { ...rules, shown: ['company', part] });
  }
  const { shown, create, patch } = fields;
  // Only for people: names of other records.
  if (!Object.hasOwn(shown.properties, name))
    return writtenColumn(name, [name], { type: name.endsWith('_names') ? 'texts' : 'text', mayBeEmpty: true });
  const written: TSchema = create.properties[name] ?? shown.properties[name]!;
  const changed: TSchema | undefined = patch.properties[name];
  return writtenColumn(name, [name], {
    type: name === externalId ? 'exact' : cellTypeOf(name, shown.properties[name]!),
    kind: kindOf(name, written),
    customType: readTypeOf(name, written),
    choices: choices[name],
    maxLength: written['format'] === 'name' ? 255 : (written['maxLength'] as number | undefined),
    isNullable: typesOf(written).includes('null'),
    mayBeEmpty: !changed || !refusesEmptyText(changed),
  });
}

const externalId = 'external_id';
const partsOfCompany = { ...files.companyParts, ...files.companyKeys };

const typesOf = (schema: TSchema): string[] => [schema['type']].flat() as string[];

function cellTypeOf(name: string, schema: TSchema): CellType {
  switch (typesOf(schema)[0]) {
    case 'string':
      return schema['format'] === 'date-time' ? 'instant' : 'text';
    case 'integer':
    case 'number':
      return 'number';
    case 'array':
      if (typesOf(schema['items'] as TSchema)[0] === 'string') return 'texts';
      return kinds[name] === 'phones' ? 'phones' : 'json';
    default:
      return 'json';
  }
}

const kinds: Record<string, ValueKind> = {
  first_name: 'name',
  middle_name: 'name',
  last_name: 'name',
  company_name: 'name',
  currency: 'currency',
  birth_year: 'year',
  gender: 'gender',
  other_emails: 'emails',
  mobile_phone: 'phone',
  phone_numbers: 'phones',
};

function kindOf(name: string, schema: TSchema): ValueKind | undefined {
  if (name === externalId) return undefined; // read as it is written
  if (Object.hasOwn(kinds, name)) return kinds[name];
  if (name.endsWith('_url')) return 'url';
  if (['email', 'country', 'domain'].includes(schema['format'] as string)) return schema['format'] as ValueKind;
  return typesOf(schema)[0] === 'string' ? 'text' : undefined;
}

function readTypeOf(name: string, schema: TSchema): ReadType | undefined {
  if (Object.hasOwn(kinds, name)) return undefined;
  const [type] = typesOf(schema);
  if (type === 'number' || type === 'boolean') return type;
  return schema['format'] === 'date-time' ? 'instant' : undefined;
}

// The contract spells one of them without an E.
const choices: Record<string, Choices> = {
  priority: new Map([...choicesBy(priorities), ['high', 'HIGHT']]),
};

function refusesEmptyText(schema: TSchema): boolean {
  const format = schema['format'] as string | undefined;
  return (schema['minLength'] ?? 0) > 0 || (format !== undefined && !formats[format as Format](''));
}
