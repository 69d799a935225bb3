import { Type, type Static } from '@sinclair/typebox';
import { companyBatches, contactBatches, type MatchField } from './batches.ts';
import { fileFormats } from './files.ts';
import type { Scope } from './base/scopes.ts';
import { CreatedAt, DoneWithId, Enum, Ids, Instant, Name, Nullable, Paginate, Strict, Uuid } from './base/wire.ts';

export const importObjects = ['contacts', 'companies'] as const;
export type ImportObject = (typeof importObjects)[number];

export const importModes = ['create', 'update', 'upsert'] as const;
export type ImportMode = (typeof importModes)[number];

/** The fields that can identify an existing record. */
export const importMatches: Record<ImportObject, readonly MatchField[]> = {
  contacts: contactBatches.matches,
  companies: companyBatches.matches,
};

/**
 * `UPLOADING → UPLOADED → PENDING → PROCESSING → COMPLETED | FAILED | CANCELLED`. An import that starts by itself skips
 * `UPLOADED`. COMPLETED may have failed records.
 */
export const importStatuses = [
  'UPLOADING',
  'UPLOADED',
  'PENDING',
  'PROCESSING',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
] as const;
export type ImportStatus = (typeof importStatuses)[number];

/** After decompression (bytes). */
export const maxFileBytes = 256 * 1024 * 1024;
export const maxFileRecords = 1_000_000;
/** Of one customer. */
export const maxUnfinishedImports = 3;

/** Returns the scopes that a key must have to start or read such an import. */
export function importScopes(object: ImportObject, mode: ImportMode): Scope[] {
  const actions = mode === 'upsert' ? (['create', 'update'] as const) : [mode];
  return actions.map((action) => `${object}:${action}` as const);
}

/** A key with none of these cannot use the endpoints for imports. */
export const anyImportScope: readonly Scope[] = [
  ...new Set(importObjects.flatMap((object) => importModes.flatMap((mode) => importScopes(object, mode)))),
];

/** Field names by header of a CSV file. Null: the column is ignored. */
export type Mapping = Record<string, string | null>;

const Mapping = () =>
  Type.Unsafe<Mapping>({
    type: 'object',
    propertyNames: { type: 'string', maxLength: 255 },
    additionalProperties: { type: ['string', 'null'], maxLength: 255 },
    maxProperties: 1_000,
    description:
      'Only for CSV files: for each header, the field that its column is read as, or null to leave the column out. ' +
      'Headers without an entry are names of fields. Entries of headers that the file lacks are ignored.',
    examples: [{ 'E-Mail': 'work_email', Notes: null }],
  });

const changeable = {
  mapping: Type.Optional(Mapping()),
  ignore_unknown: Type.Optional(
    Type.Boolean({
      default: false,
      description:
        'Leaves out the columns of a CSV file whose header names no field. If false, such a header fails the import.',
    }),
  ),
  list_ids: Type.Optional(
    Ids({
      description:
        'Lists to which each contact of the file is added by hand, unless its record failed. Only for contacts.',
    }),
  ),
  dry_run: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'Writes nothing. Only counts what would happen to each record, judged by what is stored.',
    }),
  ),
};

/** The file is sent in a later request. */
export const ImportCreate = Strict(
  {
    object: Enum(importObjects, { description: 'What the file contains.' }),
    mode: Enum(importModes, {
      description:
        '`create` creates records, `update` changes stored ones. `upsert` changes the record that `match` finds, or creates one.',
    }),
    match: Type.Optional(
      Enum(importMatches.contacts, {
        description:
          'The field by which a record of the file names the stored one. With `update` it is `id` by default. With ' +
          '`upsert` it is required, and not `id`. With `create` it is not allowed. `work_email` is for contacts only.',
      }),
    ),
    format: Enum(fileFormats, {
      description:
        '`csv`: UTF-8, with a header line; the separator is `,` `;` or tab. `ndjson`: one JSON object on each line.',
    }),
    ...changeable,
    start: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'If false, the import waits after the upload until it is started. Its preview can be read meanwhile.',
      }),
    ),
    name: Type.Optional(Name({ description: 'A name of your choice: 1–255 characters. `""` by default.' })),
  },
  {
    title: 'ImportCreate',
    examples: [{ object: 'contacts', mode: 'upsert', match: 'work_email', format: 'csv' }],
  },
);
export type ImportCreate = Static<typeof ImportCreate>;

/** Only for an import that has not started. */
export const ImportPatch = Strict(changeable, {
  title: 'ImportPatch',
  examples: [{ mapping: { 'E-Mail': 'work_email' } }],
});
export type ImportPatch = Static<typeof ImportPatch>;

const count = (description: string) => Type.Integer({ description });

export const Import = Type.Object(
  {
    id: Uuid({ description: 'Id of the import.' }),
    name: Type.String({ description: 'Name of the import. `""` if it was given none.' }),
    object: Enum(importObjects, { description: 'What the file contains.' }),
    mode: Enum(importModes, { description: 'What the import does with the records of its file.' }),
    match: Nullable(
      Enum(importMatches.contacts, {
        description: 'The field by which a record of the file names the stored one. Null with `create`.',
      }),
    ),
    format: Enum(fileFormats, { description: 'Format of the file.' }),
    dry_run: Type.Boolean({ description: 'Whether the import writes nothing and only counts.' }),
    status: Enum(importStatuses, {
      description:
        '`UPLOADING`: waits for its file. `UPLOADED`: waits for its start. `PENDING`: waits for a worker. `PROCESSING`: ' +
        'is written. `COMPLETED`: the whole file was read; records may have failed. `FAILED`: see `error`. `CANCELLED`: ' +
        'was stopped.',
    }),
    total: Nullable(Type.Integer({ description: 'Number of records in the file. Null until the file was read once.' })),
    processed: count('Records so far: created + updated + unchanged + failed.'),
    created: count('Records that were created; with `dry_run`, those that would be.'),
    updated: count('Records that were changed; with `dry_run`, those that would be.'),
    unchanged: count('Records that changed nothing.'),
    failed: count('Records that could not be written. `GET /imports/{id}/errors` says why.'),
    error: Nullable(Type.String({ description: 'Why the import failed. Null: it did not.' })),
    created_at: CreatedAt(),
    started_at: Nullable(Instant({ description: 'When the work began. Null: it has not begun.' })),
    finished_at: Nullable(Instant({ description: 'When the import ended. Null: it has not ended.' })),
  },
  { title: 'Import' },
);
export type Import = Static<typeof Import>;

export const ImportBegun = DoneWithId;

export const ImportQuery = Strict(
  { paginate: Type.Optional(Paginate) },
  { title: 'ImportQuery', examples: [{ paginate: { limit: 25 } }] },
);

/** The header line, the first records and their errors. */
export const ImportPreview = Type.Object(
  {
    headers: Nullable(Type.Array(Type.String(), { description: 'The headers of a CSV file. Null for NDJSON.' })),
    mapping: Nullable(
      Type.Unsafe<Mapping>({
        type: 'object',
        additionalProperties: { type: ['string', 'null'] },
        description: 'For each header, the field that its column is read as; null: none. Null for NDJSON.',
      }),
    ),
    records: Type.Array(Type.Unsafe<object>({ type: 'object', additionalProperties: true }), {
      description: 'The first 5 records, as items of a batch. `{}` for a record that cannot be read.',
    }),
    errors: Type.Array(
      Type.Object({
        path: Type.String({ description: 'JSON pointer (RFC 6901) to the value in this response.' }),
        message: Type.String({ description: 'What is wrong with the value.' }),
      }),
      { description: 'What is wrong with the header or with these records.' },
    ),
  },
  { title: 'ImportPreview' },
);
export type ImportPreview = Static<typeof ImportPreview>;

/** Any content type. */
export const FileBody = {
  description: 'The file, of at most 256 MiB. Any content type is accepted, and `Content-Encoding: gzip`.',
  content: {
    'application/octet-stream': {
      schema: Type.String({ format: 'binary', examples: ['first_name,last_name\nAda,Lovelace\n'] }),
    },
  },
};

/** A CSV file with the failed records. */
export const ErrorsFile = {
  description:
    'The failed records: the columns of the file (of NDJSON the line as `_record`), then `_line`, where the record starts ' +
    'in the file, and `_error`.',
  content: { 'text/csv': { schema: Type.String() } },
};
