import type { TSchema } from '@sinclair/typebox';
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
  type ExportFormat,
  type FileFields,
  type GivenFields,
} from '../schemas/files.ts';
import { formats, type Format } from '../schemas/base/formats.ts';
import { customKey } from '../schemas/filters.ts';
import { listNames } from '../schemas/contacts.ts';
import { maxAddressLength } from '../text/domains.ts';
import type { CellType } from './cells.ts';
import type { Choices, DecimalMark, ReadType } from './values/custom-values.ts';
import type { ValueKind } from './values/read-value.ts';

/** A column of a CSV file, or a property of each object in an NDJSON file. */
export interface FileColumn {
  /** The field, as imports name it. */
  name: string;
  /** What the header line says. */
  header: string;
  type: CellType;
  /** How imports read what people write; undefined: only as exports write it. */
  kind?: ValueKind | undefined;
  /** Of a custom field in an import: the type of its values. */
  customType?: ReadType | undefined;
  /** Of a custom field that is declared as a choice. */
  choices?: Choices | undefined;
  /** Of numbers in a custom field: undefined if the cells of the column do not show it. */
  decimalMark?: DecimalMark | undefined;
  /** The longest text that the field takes (characters). */
  maxLength?: number | undefined;
  /** Of full names in an import: the language of the file is one whose people have two last names. */
  hasTwoFamilyNames?: boolean | undefined;
  /**
   * The value's place in a response: a field, and a property if the field is an object, such as `['custom_fields',
   * 'region']`.
   */
  shown: Path;
  /** The value's place in a request body that writes the record, like `shown`. */
  item: Path;
  /** False: the API rejects null, so exports omit it, and their records can be sent to the API unchanged. */
  isNullable: boolean;
  /** False: the API rejects `""`, so exports omit it. */
  mayBeEmpty: boolean;
}

type Path = readonly [field: string, part?: string];

/**
 * Returns the columns of an export.
 * @param custom the custom fields that have a column each, if `selected` is `readable`
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

/** A custom field, with what people call it: its key unless it is declared. */
export interface LabelledKey {
  key: string;
  label: string;
}

/** The header of a custom field is its label, else its key, unless that is the title of another column. */
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

/** Returns the field names that an export selects, and one fault for each invalid name. */
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

/** Returns undefined if an import cannot write such a field. JSON of callers cannot have the key `__proto__` either. */
export const columnNamed = (fields: FileFields, name: string): FileColumn | undefined =>
  (isFileField(fields, name) && name !== 'custom_fields.__proto__') ||
  (fields.noun === 'contacts' && Object.hasOwn(companyKeys, name)) ||
  Object.hasOwn(fields.references ?? {}, name)
    ? columnOf(fields, name)
    : undefined;

/** Only in imports: gives a contact's first and last name. */
export const fullNameColumn: FileColumn = {
  name: 'full_name',
  header: 'full_name',
  type: 'text',
  kind: 'full name',
  shown: ['full_name'],
  item: ['full_name'],
  isNullable: false,
  mayBeEmpty: false,
};

function columnOf(fields: FileFields, name: string): FileColumn {
  const key = customKey(name);
  if (key !== undefined) {
    const path: Path = ['custom_fields', key];
    return { name, header: name, type: 'custom', shown: path, item: path, isNullable: false, mayBeEmpty: true };
  }
  if (name === listNames) {
    const path: Path = [name];
    return { name, header: name, type: 'texts', shown: path, item: path, isNullable: false, mayBeEmpty: true };
  }
  const reference = fields.references?.[name];
  if (reference) {
    const { type, item } = reference;
    const kind = type === 'text' ? 'text' : undefined;
    return { name, header: name, type, kind, maxLength: 255, shown: item, item, isNullable: false, mayBeEmpty: false };
  }
  if (Object.hasOwn(partsOfCompany, name)) {
    const shown: Path = ['company', partsOfCompany[name as keyof typeof partsOfCompany]];
    const item: Path = ['company', name.slice('company.'.length)];
    // Not `name`: all contacts whose company is `-` would get one company.
    return {
      name,
      header: name,
      type: shown[1] === externalId ? 'exact' : 'text',
      kind: shown[1] === externalId ? undefined : shown[1] === 'domain' ? 'domain' : 'text',
      maxLength: shown[1] === 'domain' ? maxAddressLength : 255,
      shown,
      item,
      isNullable: false,
      mayBeEmpty: false,
    };
  }
  const { shown, create, patch } = fields;
  const written: TSchema = create.properties[name] ?? shown.properties[name]!;
  const changed: TSchema | undefined = patch.properties[name];
  return {
    name,
    header: name,
    type: name === externalId ? 'exact' : cellTypeOf(name, shown.properties[name]!),
    kind: kindOf(name, written),
    maxLength: written['format'] === 'name' ? 255 : (written['maxLength'] as number | undefined),
    shown: [name],
    item: [name],
    isNullable: typesOf(written).includes('null'),
    mayBeEmpty: !changed || !refusesEmptyText(changed),
  };
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

/** True if the field rejects the empty string. */
function refusesEmptyText(schema: TSchema): boolean {
  const format = schema['format'] as string | undefined;
  return (schema['minLength'] ?? 0) > 0 || (format !== undefined && !formats[format as Format](''));
}
