import { Type, type Static } from '@sinclair/typebox';
import { companyBatches, contactBatches, opportunityBatches, productBatches, type BatchKind } from './batches.ts';
import { FieldChanges } from './events.ts';
import type { Scope } from './scopes.ts';
import * as wire from './wire.ts';

export const importObjects = ['contacts', 'companies', 'products', 'opportunities'] as const;
export type ImportObject = (typeof importObjects)[number];

export const importModes = ['create', 'update', 'upsert'] as const;
export type ImportMode = (typeof importModes)[number];

export const importedKinds: Record<ImportObject, BatchKind> = {
  contacts: contactBatches,
  companies: companyBatches,
  products: productBatches,
  opportunities: opportunityBatches,
};

const allMatches = [...new Set(Object.values(importedKinds).flatMap(({ matches }) => matches))];

/**
 * Statuses of an import: `UPLOADING → UPLOADED → PENDING → PROCESSING → COMPLETED | FAILED | CANCELLED`. An import that
 * starts by itself skips `UPLOADED`. A completed import may have failed records.
 */
const importStatuses = ['UPLOADING', 'UPLOADED', 'PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type ImportStatus = (typeof importStatuses)[number];

/** Maximum size of a file after decompression (bytes). */
export const maxFileBytes = 256 * 1024 * 1024;
export const maxFileRecords = 1_000_000;
export const maxRunningImports = 3;
export const maxWaitingImports = 20;

export const maxXlsxBytes = 50 * 1024 * 1024;

/** Formats of a file to import. `auto` detects the format from the bytes of the file. */
export const importFormats = ['auto', 'csv', 'ndjson', 'xlsx'] as const;
export type ImportFormat = (typeof importFormats)[number];

export function importScopes(object: ImportObject, mode: ImportMode): Scope[] {
  const actions = mode === 'upsert' ? (['create', 'update'] as const) : [mode];
  return actions.map((action) => `${object}:${action}` as const);
}

/** Scope that an import also needs if it has a column of notes. */
export const noteScope = 'activities:create';

export const anyImportScope: readonly Scope[] = [
  ...new Set(importObjects.flatMap((object) => importModes.flatMap((mode) => importScopes(object, mode)))),
];

export const customTypes = ['text', 'number', 'boolean', 'date'] as const;
export type CustomType = (typeof customTypes)[number];

/** Field to which a column is mapped, or null if the column is not imported. A custom field has a type. */
export type MappedField = string | { field: string; type: CustomType } | null;

export type Mapping = Record<string, MappedField>;

export const fieldOfMapped = (mapped: MappedField): string | null =>
  typeof mapped === 'object' && mapped !== null ? mapped.field : mapped;

const mappedField = {
  anyOf: [
    { type: ['string', 'null'], maxLength: 255 },
    {
      type: 'object',
      required: ['field', 'type'],
      additionalProperties: false,
      properties: {
        field: { type: 'string', maxLength: 255, description: 'The field: `custom_fields.<key>`.' },
        type: { type: 'string', enum: customTypes, description: 'The type of its values.' },
      },
    },
  ],
};

const Mapping = () =>
  Type.Unsafe<Mapping>({
    type: 'object',
    propertyNames: { type: 'string', maxLength: 255 },
    additionalProperties: mappedField,
    maxProperties: 1_000,
    description:
      'Only for CSV and XLSX files: for each header, the field that its column is read as, or null to leave the column out. ' +
      'For a custom field also `{field, type}`, with the type `text`, `number`, `boolean` or `date`; without it, the cells ' +
      'show the type. Headers without an entry are names of fields. Entries of headers that the file lacks are ignored.',
    examples: [{ 'E-Mail': 'work_email', Size: { field: 'custom_fields.size', type: 'text' }, Notes: null }],
  });

const mappingOrigins = ['given', 'name', 'remembered', 'guess'] as const;
export type MappingOrigin = (typeof mappingOrigins)[number];

export const invalidValues = ['skip', 'fail'] as const;
export type InvalidValues = (typeof invalidValues)[number];

const changeable = {
  mapping: Type.Optional(Mapping()),
  encoding: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 40,
      default: 'auto',
      description:
        'Encoding of a CSV file: a label of the WHATWG Encoding standard, such as `windows-1252`. `auto`: a byte order mark ' +
        'decides, else UTF-8 if all bytes are valid UTF-8, else Windows-1252. NDJSON is UTF-8, or what its mark says.',
      examples: ['auto', 'windows-1252'],
    }),
  ),
  sheet: Type.Optional(
    wire.Nullable(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: 'Name of the sheet of an XLSX file. Null: the first that is visible.',
        examples: ['Contacts'],
      }),
    ),
  ),
  guess: wire.Flag(
    'Finds the fields of the columns of a CSV or XLSX file whose header names none: as your last import of a file with ' +
      'these headers had them, by the usual names of fields in English, German, French and Spanish, by the keys and labels of ' +
      'declared fields, and by what the first 200 records hold. Columns that stay open are left out, and named in the preview and in the failures.',
  ),
  invalid_values: Type.Optional(
    wire.Enum(
      invalidValues,
      '`skip` (default of CSV and XLSX): a value that cannot be read, and that writing the record does not need, is left ' +
        'out, with a warning. `fail` (default of NDJSON): its record fails.',
    ),
  ),
  ignore_unknown: wire.Flag(
    'Leaves out the columns of a CSV or XLSX file whose header names no field. If false, such a header fails the import.',
  ),
  header: wire.Flag(
    'If false, the first line of a CSV or XLSX file is a record, and the columns are named `Column 1`, `Column 2` …',
    true,
  ),
  list_ids: Type.Optional(
    wire.Ids('Lists to which each contact of the file is added by hand, unless its record failed. Only for contacts.'),
  ),
  dry_run: wire.Flag('Writes nothing. Only counts what would happen to each record, judged by what is stored.'),
};

export const ImportCreate = wire.Body('ImportCreate', [{ object: 'contacts', mode: 'upsert', match: 'work_email' }], {
  object: wire.Enum(importObjects, 'What the file contains.'),
  mode: wire.Enum(
    importModes,
    '`create` creates records, `update` changes stored ones. `upsert` changes the record that `match` finds, or creates one.',
  ),
  match: Type.Optional(
    wire.Enum(
      allMatches,
      'The field by which a record of the file names the stored one. With `update` it is `id` by default. With ' +
        '`upsert` it is required, and not `id`. With `create` it is not allowed. `work_email` is for contacts only, `domain` for companies.',
    ),
  ),
  format: Type.Optional(
    wire.Enum(importFormats, {
      default: 'auto',
      description:
        '`csv`: with a header line; the separator is `,` `;` tab or `|`. `ndjson`: one JSON object on each line. `xlsx`: a ' +
        'sheet of an Excel file; the first row with at least two filled cells is the header. `auto`: as the file shows.',
    }),
  ),
  ...changeable,
  start: wire.Flag(
    'If false, the import waits after the upload until it is started. Its preview can be read meanwhile.',
    true,
  ),
  name: Type.Optional(wire.Name('A name of your choice: 1–255 characters. `""` by default.')),
});
export type ImportCreate = Static<typeof ImportCreate>;

export const ImportStart = wire.Body('ImportStart', [{ dry_run: false }], {
  dry_run: Type.Optional(
    Type.Boolean({
      description:
        'Of an import that waits: as in its settings. False starts a COMPLETED dry run again, for real, with the file that it ' +
        'has checked. The file is kept for 24 hours.',
    }),
  ),
});
export type ImportStart = Static<typeof ImportStart>;

export const ImportPatch = wire.Strict(changeable, {
  title: 'ImportPatch',
  examples: [{ mapping: { 'E-Mail': 'work_email' } }],
});
export type ImportPatch = Static<typeof ImportPatch>;

const count = (description: string) => Type.Integer({ description });

const notListed = 'Null of others. Absent in lists.';
const shownChanges = 'A company is shown by its name.';

export const ImportChange = wire.Named('ImportChange', {
  line: Type.Integer({ description: 'Where the record starts in the file; the header line is 1.' }),
  id: wire.Uuid('Id of the stored record.'),
  fields: FieldChanges(`The values now and then, by field, such as \`job_title\`. ${shownChanges}`),
});
export type ImportChange = Static<typeof ImportChange>;

const findings = {
  changes: Type.Array(ImportChange, { description: 'The first 20 stored records that would change.' }),
  repeated: Type.Integer({ description: 'Values of the field `match` that several records have.' }),
};

export const Import = wire.Named('Import', {
  id: wire.Uuid('Id of the import.'),
  name: Type.String({ description: 'Name of the import. `""` if it was given none.' }),
  object: wire.Enum(importObjects, 'What the file contains.'),
  mode: wire.Enum(importModes, 'What the import does with the records of its file.'),
  match: wire.Nullable(
    wire.Enum(allMatches, 'The field by which a record of the file names the stored one. Null with `create`.'),
  ),
  format: wire.Enum(
    importFormats,
    'Format of the file. `auto` until the file is there; of an empty file also afterwards.',
  ),
  encoding: wire.Nullable(
    Type.String({ description: 'Encoding of the file. `auto` until the file is there. Null for XLSX.' }),
  ),
  invalid_values: wire.Enum(
    invalidValues,
    'Whether a value that cannot be read is left out with a warning, or fails its record.',
  ),
  dry_run: Type.Boolean({ description: 'Whether the import writes nothing and only counts.' }),
  status: wire.Enum(
    importStatuses,
    '`UPLOADING`: waits for its file. `UPLOADED`: waits for its start. `PENDING`: waits for a worker. `PROCESSING`: ' +
      'is written. `COMPLETED`: the whole file was read; records may have failed. `FAILED`: see `error`. `CANCELLED`: ' +
      'was stopped.',
  ),
  total: wire.Nullable(
    Type.Integer({ description: 'Number of records in the file. Null until the file was read once.' }),
  ),
  processed: count('Records so far: created + updated + unchanged + failed.'),
  created: count('Records that were created; with `dry_run`, those that would be.'),
  updated: count('Records that were changed; with `dry_run`, those that would be.'),
  unchanged: count('Records that changed nothing.'),
  failed: count('Records that could not be written. `GET /imports/{id}/errors` says why.'),
  warnings: count(
    'Records that were written (with `dry_run`: would be) without a value that cannot be read. `GET /imports/{id}/failures` names it.',
  ),
  error: wire.Nullable(Type.String({ description: 'Why the import failed. Null: it did not.' })),
  created_at: wire.CreatedAt(),
  started_at: wire.Nullable(wire.Instant('When the work began. Null: it has not begun.')),
  finished_at: wire.Nullable(wire.Instant('When the import ended. Null: it has not ended.')),
  changes: Type.Optional(
    wire.Nullable({
      ...findings.changes,
      description: `Of a dry run that has ended: the first 20 stored records that would change. ${notListed}`,
    }),
  ),
  repeated: Type.Optional(
    wire.Nullable({
      ...findings.repeated,
      description: `Of a dry run that has ended: values of the field \`match\` that several records have. ${notListed}`,
    }),
  ),
});
export type Import = Static<typeof Import>;

export const ImportBegun = wire.DoneWithId;

export const ImportQuery = wire.PageQuery('ImportQuery', 25);

const Finding = Type.Object({
  path: Type.String({ description: 'JSON pointer (RFC 6901) to the value in this response.' }),
  message: Type.String({ description: 'What is wrong with the value.' }),
});

export const ImportPreview = wire.Named('ImportPreview', {
  headers: wire.Nullable(
    Type.Array(Type.String(), {
      description: 'The headers of a CSV or XLSX file. Null for NDJSON and an empty file.',
    }),
  ),
  mapping: wire.Nullable(
    Type.Unsafe<Mapping>({
      type: 'object',
      additionalProperties: mappedField,
      description:
        'For each header, the field that its column is read as, with its type if one is given; null: none. Null for NDJSON.',
    }),
  ),
  mapping_from: wire.Nullable(
    Type.Unsafe<Record<string, MappingOrigin | null>>({
      type: 'object',
      additionalProperties: { type: ['string', 'null'], enum: [...mappingOrigins, null] },
      description:
        'For each header, where its field comes from: `given` by the mapping, the `name` of a field itself, `remembered` from ' +
        'your last import of a file with these headers, or a `guess`. Null: nothing names a field. Null for NDJSON.',
    }),
  ),
  encoding: wire.Nullable(Type.String({ description: 'The encoding by which the file is read. Null for XLSX.' })),
  separator: wire.Nullable(
    Type.String({ description: 'The character between the cells of a CSV file. Null for others.' }),
  ),
  sheets: wire.Nullable(
    Type.Array(Type.String(), { description: 'The names of the sheets of an XLSX file, in order. Null for others.' }),
  ),
  records: Type.Array(Type.Unsafe<object>({ type: 'object', additionalProperties: true }), {
    description: 'The first 5 records, as items of a batch. `{}` for a record that cannot be read.',
  }),
  errors: Type.Array(Finding, { description: 'What is wrong with the header or with these records.' }),
  warnings: Type.Array(Finding, {
    description: 'What is left out: columns that are read as no field, and values that cannot be read.',
  }),
  ...findings,
});
export type ImportPreview = Static<typeof ImportPreview>;

export const FileBody = {
  description:
    'The file, of at most 256 MiB (XLSX: 50 MiB). Any content type is accepted, and `Content-Encoding: gzip`.',
  content: {
    'application/octet-stream': {
      schema: Type.String({ format: 'binary', examples: ['first_name,last_name\nAda,Lovelace\n'] }),
    },
  },
};

export const FailureQuery = wire.Strict({
  limit: Type.Optional(
    Type.String({
      pattern: '^([1-9][0-9]?|100)$',
      description: 'The maximum number of records in a page: 1 to 100, 25 by default.',
      examples: ['100'],
    }),
  ),
  cursor: Type.Optional(
    Type.String({ maxLength: 255, description: 'The value of the header `x-next-cursor` of the previous page.' }),
  ),
});

export const ImportFailure = wire.Named('ImportFailure', {
  line: Type.Integer({ description: 'Where the record starts in the file; the header line is 1.' }),
  error: Type.Optional(Type.String({ description: 'Why the record was not written. Absent if it was written.' })),
  warning: Type.Optional(
    Type.String({
      description: 'The values that were left out. Of line 1: the columns that are read as no field.',
    }),
  ),
  record: Type.Unsafe<Record<string, string> | string>({
    description:
      'The cells of the record by header; of an NDJSON file the line. Of several columns with the same header, the second is `Phone (2)`.',
  }),
});
export type ImportFailure = Static<typeof ImportFailure>;

export const ErrorsFile = {
  description:
    'The records that failed, and those with warnings: the columns of the file (of NDJSON the line as `_record`), then ' +
    '`_line`, where the record starts in the file (of XLSX the row of the sheet), `_error` and `_warning`. Separator and ' +
    'encoding are those of a CSV file; of others, `,` and UTF-8. Corrected, it can be imported as it is.',
  content: { 'text/csv': { schema: Type.String() } },
};
