import { Type, type TObject, type TSchema, type TUnsafe } from '@sinclair/typebox';
import { ContactFilters, CompanyFilters, customKey } from './filters.ts';
import { Company, CompanyCreate, CompanyPatch } from './companies.ts';
import { Contact, ContactCreate, ContactPatch } from './contacts.ts';
import { companyLabels, contactLabels } from './fields.ts';
import { Enum, Strict } from './base/wire.ts';

/** CSV with a header line, or NDJSON (one JSON object per line). */
export const fileFormats = ['csv', 'ndjson'] as const;
export type FileFormat = (typeof fileFormats)[number];

/** XLSX: an Excel workbook, for people. */
export const exportFormats = ['csv', 'ndjson', 'xlsx'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** Of an XLSX file. A sheet can have about a million rows, but programs open so many slowly, or not at all. */
export const maxXlsxRecords = 200_000;

/** The schemas that determine which fields a file can contain. The endpoints for single records use the same. */
export interface FileFields {
  /** As in the URL path. */
  readonly noun: 'contacts' | 'company';
  readonly shown: TObject;
  readonly create: TObject;
  readonly patch: TObject;
  /** The title of each column in a file for people; null: the field is left out. Without `custom_fields`. */
  readonly labels: Readonly<Record<string, string | null>>;
}

export const contactFileFields: FileFields = {
  noun: 'contacts',
  shown: Contact,
  create: ContactCreate,
  patch: ContactPatch,
  labels: contactLabels,
};

export const companyFileFields: FileFields = {
  noun: 'company',
  shown: Company,
  create: CompanyCreate,
  patch: CompanyPatch,
  labels: companyLabels,
};

/** Fields of a contact's company in files, with their names in responses. */
export const companyParts = {
  'company.id': 'id',
  'company.name': 'company_name',
  'company.industry': 'industry',
} as const;

/** Without `custom_fields.<key>`. */
export function namesOf({ shown }: FileFields): string[] {
  const names = Object.keys(shown.properties);
  return 'company' in shown.properties ? [...names, ...Object.keys(companyParts)] : names;
}

/** Also for `custom_fields.<key>`. */
export const isFileField = (fields: FileFields, name: string): boolean =>
  namesOf(fields).includes(name) || customKey(name) !== undefined;

/** Ids first. Of a contact's company only `company.id`, and not its lists. */
export function importableNames({ create }: FileFields): string[] {
  const { external_id, company, list_ids: _, ...others } = create.properties;
  return [
    'id',
    ...(external_id ? ['external_id'] : []),
    ...Object.keys(others).filter((name) => name !== 'custom_fields'),
    ...(company ? ['company.id'] : []),
    'custom_fields',
  ];
}

/** The fields of a file for people: no ids. Each key of the custom fields is another column. */
export const readableNames = ({ labels }: FileFields): string[] =>
  Object.keys(labels).filter((name) => labels[name] !== null);

export const fieldSets = ['importable', 'readable', 'all'] as const;

/** Not validated yet: the name of a set, or field names. */
export type GivenFields = string | string[];

export const defaultFields = (format: ExportFormat): (typeof fieldSets)[number] =>
  format === 'xlsx' ? 'readable' : 'importable';

/** Of the records of one file for people, which has a column for each key. */
export const maxReadableKeys = 1_000;

export const maxFileFields = 200;

const Fields = (fields: FileFields): TUnsafe<GivenFields> =>
  Type.Unsafe<GivenFields>({
    type: ['string', 'array'],
    items: { type: 'string' },
    minItems: 1,
    maxItems: maxFileFields,
    'x-file-fields': fields.noun,
    description:
      `\`"importable"\` (default of \`csv\` and \`ndjson\`): ${importableNames(fields).join(', ')}. ` +
      `\`"readable"\` (default of \`xlsx\`; not with \`ndjson\`): ${readableNames(fields).join(', ')}, and each key of ` +
      '`custom_fields` as a column. `"all"`: every field of the record. ' +
      `Or an array of names: ${namesOf(fields).join(', ')}, custom_fields.<key>.`,
    examples: ['importable', ['id', namesOf(fields)[1]]],
  });

/** By kind of record. Each of these fields has a database index. */
export const exportOrderFields = {
  contacts: ['created_at', 'updated_at', 'score', 'last_name', 'work_email'],
  company: ['created_at', 'updated_at', 'score', 'company_name'],
} as const;

/** A single field that has a database index. Validated by the keyword `x-order-by-index`. */
const IndexedOrder = (
  noun: keyof typeof exportOrderFields,
): TUnsafe<Record<string, string> | { field: string; direction: string }[]> =>
  Type.Unsafe({
    type: ['object', 'array'],
    additionalProperties: true,
    'x-order-by-index': noun,
    description:
      'As in the list call, but only one field, and one that has an index: ' +
      `${exportOrderFields[noun].join(', ')}. Newest first by default.`,
    examples: [{ updated_at: 'ASC' }],
  });

const Format = Enum(
  exportFormats,
  '`csv`: RFC 4180, UTF-8, with a header line. Null is an unquoted `\\N`; a text that would be read as null, or in ' +
    '`custom_fields.<key>` as a number or a boolean, is quoted. Texts are not changed for spreadsheets: a cell may begin ' +
    'with `=`. `ndjson`: one JSON object on each line. `xlsx`: for people, at most ' +
    `${maxXlsxRecords.toLocaleString('en')} records. Texts stay texts, whatever they begin with; numbers, booleans and ` +
    'times (in UTC) are such. With `fields: "readable"` the header has titles for people.',
);

const exportOf = <F extends TSchema>(fields: FileFields, filters: F, title: string, example: object) =>
  Strict(
    {
      format: Format,
      filters: Type.Optional(filters),
      order_by: Type.Optional(IndexedOrder(fields.noun)),
      fields: Type.Optional(Fields(fields)),
    },
    { title, examples: [{ format: 'csv', filters: example }] },
  );

export const ContactExport = exportOf(contactFileFields, ContactFilters, 'ContactExport', { location_country: 'GB' });
export const CompanyExport = exportOf(companyFileFields, CompanyFilters, 'CompanyExport', { industry: 'Computing' });

export const contentTypes: Record<ExportFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
};

/** Streamed while the records are read: if the connection breaks, the file is incomplete. */
export const ExportedFile = {
  description: 'The file. An export that fails half-way ends with a broken connection.',
  content: {
    'text/csv': { schema: Type.String() },
    'application/x-ndjson': { schema: Type.String() },
    [contentTypes.xlsx]: { schema: Type.String({ format: 'binary' }) },
  },
};
