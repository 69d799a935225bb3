import { isDeepStrictEqual } from 'node:util';
import type { TSchema } from '@sinclair/typebox';
import { parseJson } from '../text/json.ts';
import { trimText } from '../text/fold.ts';
import { phoneText, type PhoneNumber } from './phones.ts';
import { InvalidCell, isNothing, quoted, type ValueKind } from './read-value.ts';
import { validationFailed, type Fault } from '../errors.ts';
import {
  companyKeys,
  companyParts,
  fieldSets,
  hasCustomFields,
  importableNames,
  isFileField,
  maxFileFields,
  namesOf,
  readableNames,
} from '../schemas/files.ts';
import type { ExportFormat, FileFields, GivenFields } from '../schemas/files.ts';
import { formats, type Format } from '../schemas/formats.ts';
import { customKey } from '../schemas/filters.ts';
import { priorities } from '../schemas/opportunities.ts';
import { maxAddressLength } from '../text/domains.ts';
import { choicesBy, unambiguous, type Choices, type DecimalMark, type ReadType } from './values.ts';

/**
 * Parses JSON from a file with the same checks as JSON in requests. Allows fewer values, because more would block the
 * event loop.
 */
export const parseCell = (text: string): ReturnType<typeof parseJson> => parseJson(text, 20_000);

/** A null value is an unquoted `\N`. A quoted `\N` is text. */
export interface Cell {
  text: string;
  isQuoted: boolean;
  /**
   * Only in sheets. `error`: the cell has an error such as `#N/A`. `formula`: it has a formula without a stored value.
   */
  broken?: 'error' | 'formula';
}

/**
 * How values of a column are converted to cells and back.
 *
 * - `text`: text, unchanged.
 * - `exact`: text that is compared exactly. Quoted white space counts, and `n/a` is a value. A cell of white space
 * alone is empty.
 * - `instant`: a time as ISO 8601 text.
 * - `number`: a JSON number.
 * - `texts`: an array of strings, separated by `;`.
 * - `own ids`: an array of external ids of other records, separated by `;`. Only in imports.
 * - `phones`: an array of phone numbers, separated by `;`, or as JSON.
 * - `json`: any JSON value.
 * - `custom`: the value of a custom field. It is read as text, and converted later to the type of its column.
 * - `sheet number`: the value of a custom field in a sheet. Its numbers never have a decimal comma.
 */
export type CellType =
  'text' | 'exact' | 'instant' | 'number' | 'texts' | 'own ids' | 'phones' | 'json' | 'custom' | 'sheet number';

interface Rules {
  write(value: never): string;
  /**
   * Converts a cell that is neither empty nor null. Returns undefined if the cell has no value.
   * @throws InvalidCell
   */
  read(cell: Cell): unknown;
  /** True if the cell must be quoted: without quotes, e.g. the text `true` would be read as a boolean. */
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
    read: ({ text }) => parts(text),
  },
  // A JSON array for ids with a semicolon.
  'own ids': {
    ...asItIs,
    read: ({ text }) => {
      const ids = trimText(text).startsWith('[') ? readJson(text) : parts(text);
      return Array.isArray(ids) ? ids.map((external_id: unknown) => ({ external_id })) : ids;
    },
  },
  phones: { write: writePhones, read: ({ text }) => readPhones(text) },
  json: { write: (value: unknown) => JSON.stringify(value), read: ({ text }) => readJson(text) },
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
 * Returns undefined for a cell without a value, null for an unquoted `\N`.
 * @throws InvalidCell
 */
export function readCell(type: CellType, cell: Cell): unknown {
  if (cell.text === '') return undefined;
  return !cell.isQuoted && cell.text === nullText ? null : rules[type].read(cell);
}

export const isNumber = (text: string): boolean => /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text);

/** Returns true for a text that would be read as a number or boolean if it were not quoted. */
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
 * Splits at `;`, or at `:::` as Google does, trims the parts and removes empty ones.
 * @throws InvalidCell if there are too many
 */
function parts(text: string): string[] {
  const all = text.split(/;|:::/, maxParts + 1);
  if (all.length > maxParts) throw new InvalidCell(`has more than ${maxParts} values`);
  return all.map(trimText).filter((part) => part !== '');
}

/** Returns e.g. `+49 30123456;+44 20123456`, or JSON if that cannot be read back as the same numbers. */
function writePhones(phones: PhoneNumber[]): string {
  const text = phones.map(phoneText).join(';');
  return text !== '' && !text.startsWith('[') && isDeepStrictEqual(parts(text).map(readPhone), phones.map(plain))
    ? text
    : JSON.stringify(phones);
}

const plain = ({ country_code, number }: PhoneNumber): PhoneNumber => ({ country_code, number });

const readPhones = (text: string): unknown =>
  trimText(text).startsWith('[') ? readJson(text) : parts(text).map(readPhone);

/** If the text starts with `+`, the first word is the country code. */
function readPhone(text: string): PhoneNumber {
  const [, country_code = '', number = ''] = /^(\+\S*)?\s*(.*)$/s.exec(text)!;
  return { country_code, number };
}

export const columnLetters = (index: number): string =>
  (index < 26 ? '' : columnLetters(Math.floor(index / 26) - 1)) + String.fromCharCode(65 + (index % 26));

export interface FileColumn {
  name: string;
  header: string;
  type: CellType;
  /** How imports read values as people write them. Undefined: values are read only in the form that exports write. */
  kind?: ValueKind | undefined;
  customType?: ReadType | undefined;
  choices?: Choices | undefined;
  /** The decimal mark of a custom field's numbers. Undefined: the cells of the column do not show it. */
  decimalMark?: DecimalMark | undefined;
  maxLength?: number | undefined;
  /** Only for full names in an import: people have two last names in the language of the file. */
  hasTwoFamilyNames?: boolean | undefined;
  /**
   * The value's place in a response: a field, and a property if the field is an object, such as `['custom_fields',
   * 'region']`.
   */
  shown: Path;
  item: Path;
  /** False: the API rejects null. Exports omit null, so that their records can be sent to the API unchanged. */
  isNullable: boolean;
  /** False: the API rejects `""`. Exports omit it. */
  mayBeEmpty: boolean;
}

type Path = readonly [field: string, part?: string];

/**
 * Returns the columns of an export.
 * @param custom custom fields that get a column each if `selected` is `readable`
 * @throws DomainError `validation_failed` with one fault for each invalid field name
 */
export function columnsOf(
  fields: FileFields,
  selected: GivenFields,
  format: ExportFormat,
  custom: readonly LabelledKey[] = [],
): FileColumn[] {
  const { names, faults } = readFields(fields, selected, '/fields');
  if (faults.length > 0) throw validationFailed(faults);
  const columns = [...names, ...custom.map(({ key }) => `custom_fields.${key}`)]
    .flatMap((name) => (name === 'company' && format !== 'ndjson' ? Object.keys(companyParts) : [name]))
    .map((name) => columnOf(fields, name));
  return selected === 'readable' && format === 'xlsx' ? withTitles(fields, columns, custom) : columns;
}

export interface LabelledKey {
  key: string;
  label: string;
}

/** Uses the label of a custom field as its header. Uses the key if another column has that title. */
function withTitles(
  { table }: FileFields,
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
  fields: FileFields,
  selected: unknown,
  pointer: string,
): { names: string[]; faults: Fault[] } {
  if (selected === 'importable') return { names: importableNames(fields), faults: [] };
  if (selected === 'readable') return { names: readableNames(fields), faults: [] };
  if (selected === 'all') return { names: Object.keys(fields.shown.properties), faults: [] };
  if (!Array.isArray(selected) || selected.length === 0 || selected.length > maxFileFields) {
    const sets = fieldSets.map((name) => `"${name}"`).join(', ');
    const message = `must be ${sets} or an array of 1 to ${maxFileFields} names of fields`;
    return { names: [], faults: [{ path: pointer, message }] };
  }
  const faults = selected.flatMap((name: unknown, i) => {
    const message = faultOf(fields, selected, name, i);
    return message === undefined ? [] : [{ path: `${pointer}/${i}`, message }];
  });
  return { names: selected as string[], faults };
}

/**
 * Returns an error message, or undefined if the name is valid.
 * @param selected all selected names
 * @param i index of `name` in `selected`
 */
function faultOf(fields: FileFields, selected: readonly unknown[], name: unknown, i: number): string | undefined {
  if (typeof name !== 'string' || !isFileField(fields, name))
    return `is not a field; allowed are ${[...namesOf(fields), ...(hasCustomFields(fields) ? ['custom_fields.<key>'] : [])].join(', ')}`;
  if (selected.indexOf(name) < i) return 'is named twice';
  const whole = ['company', 'custom_fields'].find((field) => name.startsWith(`${field}.`) && selected.includes(field));
  return whole === undefined ? undefined : `is a part of ${whole}, which is named too`;
}

/**
 * Returns undefined if an import cannot write the field. Also rejects `__proto__`, as the JSON parser does in requests.
 */
export const columnNamed = (fields: FileFields, name: string): FileColumn | undefined =>
  (isFileField(fields, name) && name !== 'custom_fields.__proto__') ||
  (fields.noun === 'contacts' && Object.hasOwn(companyKeys, name)) ||
  Object.hasOwn(fields.references ?? {}, name)
    ? columnOf(fields, name)
    : undefined;

/** Returns a column whose value the API takes neither as null nor as `""`. */
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

/** Makes a note of the record. */
export const noteColumn = writtenColumn('note', ['note'], { type: 'text', kind: 'text', maxLength: 10_000 });

function columnOf(fields: FileFields, name: string): FileColumn {
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
const partsOfCompany = { ...companyParts, ...companyKeys };

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

/** Returns the type of a field's values that people write in several ways. */
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
