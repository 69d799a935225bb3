import { Type, type Static, type TObject, type TUnsafe } from '@sinclair/typebox';
import { ContactFilters, CompanyFilters, customKey } from './filters.ts';
import { Company, CompanyCreate, CompanyPatch } from './companies.ts';
import { Contact, ContactCreate, ContactPatch } from './contacts.ts';
import { Enum, Strict } from './base/wire.ts';

/** Formats of files with records: CSV with a header line, or NDJSON (one JSON object per line). */
export const fileFormats = ['csv', 'ndjson'] as const;
export type FileFormat = (typeof fileFormats)[number];

/**
 * The schemas of one kind of record. They determine which fields an imported or exported file can contain. The
 * endpoints for single records use the same schemas.
 */
export interface FileFields {
  /** Name of the kind of record, as in the URL path. */
  readonly noun: 'contacts' | 'company';
  /** The record as responses show it. */
  readonly shown: TObject;
  /** The request body that creates a record. */
  readonly create: TObject;
  /** The request body that changes a record. */
  readonly patch: TObject;
}

export const contactFileFields: FileFields = {
  noun: 'contacts',
  shown: Contact,
  create: ContactCreate,
  patch: ContactPatch,
};

export const companyFileFields: FileFields = {
  noun: 'company',
  shown: Company,
  create: CompanyCreate,
  patch: CompanyPatch,
};

/**
 * Fields of a contact's company that a file can contain. Maps the field names in files to the field names in responses.
 */
export const companyParts = {
  'company.id': 'id',
  'company.name': 'company_name',
  'company.industry': 'industry',
} as const;

/** Returns the field names that the request field `fields` accepts, except names of the form `custom_fields.<key>`. */
export function namesOf({ shown }: FileFields): string[] {
  const names = Object.keys(shown.properties);
  return 'company' in shown.properties ? [...names, ...Object.keys(companyParts)] : names;
}

/** Returns true if a name is a field of these records or has the form `custom_fields.<key>`. */
export const isFileField = (fields: FileFields, name: string): boolean =>
  namesOf(fields).includes(name) || customKey(name) !== undefined;

/**
 * Returns the names of the fields that an import can write, with the ids first. For a contact's company, only
 * `company.id` is included. The lists of a contact are not included.
 */
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

/** The unvalidated request field `fields`: `"importable"`, `"all"` or an array of field names. */
export type GivenFields = string | string[];

/** Maximum number of names in the request field `fields`. */
export const maxFileFields = 200;

/** Returns the schema of the request field `fields`. The custom Ajv keyword `x-file-fields` validates this field. */
const Fields = (fields: FileFields): TUnsafe<GivenFields> =>
  Type.Unsafe<GivenFields>({
    type: ['string', 'array'],
    items: { type: 'string' },
    minItems: 1,
    maxItems: maxFileFields,
    'x-file-fields': fields.noun,
    default: 'importable',
    description:
      `\`"importable"\`: ${importableNames(fields).join(', ')}. \`"all"\`: every field of the record. ` +
      `Or an array of names: ${namesOf(fields).join(', ')}, custom_fields.<key>.`,
    examples: ['importable', ['id', namesOf(fields)[1]]],
  });

/**
 * Names of the fields by which an export can be sorted, for each kind of record. Each of these fields has a database
 * index.
 */
export const exportOrderFields = {
  contacts: ['created_at', 'updated_at', 'score', 'last_name', 'work_email'],
  company: ['created_at', 'updated_at', 'score', 'company_name'],
} as const;

/**
 * Returns the schema of the request field `order_by` for an export. The field accepts a single sort field, which must
 * have a database index. The custom Ajv keyword `x-order-by-index` validates it.
 */
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

const Format = Enum(fileFormats, {
  description:
    '`csv`: RFC 4180, UTF-8, with a header line. Null is an unquoted `\\N`; a text that would be read as null, or in ' +
    '`custom_fields.<key>` as a number or a boolean, is quoted. Texts are not changed for spreadsheets: a cell may begin ' +
    'with `=`. `ndjson`: one JSON object on each line.',
});

/** Request body for exporting contacts: filters, sort order, the fields to export, and the file format. */
export const ContactExport = Strict(
  {
    format: Format,
    filters: Type.Optional(ContactFilters),
    order_by: Type.Optional(IndexedOrder('contacts')),
    fields: Type.Optional(Fields(contactFileFields)),
  },
  { title: 'ContactExport', examples: [{ format: 'csv', filters: { location_country: 'GB' } }] },
);
export type ContactExport = Static<typeof ContactExport>;

/** Request body for exporting companies: filters, sort order, the fields to export, and the file format. */
export const CompanyExport = Strict(
  {
    format: Format,
    filters: Type.Optional(CompanyFilters),
    order_by: Type.Optional(IndexedOrder('company')),
    fields: Type.Optional(Fields(companyFileFields)),
  },
  { title: 'CompanyExport', examples: [{ format: 'csv', filters: { industry: 'Computing' } }] },
);
export type CompanyExport = Static<typeof CompanyExport>;

/** The content types of files, by format. */
export const contentTypes: Record<FileFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
};

/**
 * Response of an export: the file. The file is streamed while the records are read. If the connection breaks, the file
 * is incomplete.
 */
export const ExportedFile = {
  description: 'The file. An export that fails half-way ends with a broken connection.',
  content: {
    'text/csv': { schema: Type.String() },
    'application/x-ndjson': { schema: Type.String() },
  },
};
