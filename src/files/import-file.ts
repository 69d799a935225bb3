import { importedFields } from '../schemas/files.ts';
import type { DeclaredField } from '../schemas/base/declared-fields.ts';
import type { MatchField } from '../schemas/batches.ts';
import type { ImportFormat, ImportObject, InvalidValues, Mapping } from '../schemas/imports.ts';
import { columnNamed, fullNameColumn, type FileColumn } from './columns.ts';

/** What an import's file contains, and how its records are imported. */
export interface ImportFile {
  object: ImportObject;
  mode: 'create' | 'update' | 'upsert';
  /** Identifies the existing record. Default: `id`. Ignored in the mode `create`. */
  match?: MatchField | undefined;
  /** `auto` for an empty file. */
  format: ImportFormat;
  /** Read as Windows-1252 only because it is not UTF-8. */
  isWindowsByDefault?: boolean;
  /** Fields by header of a CSV or XLSX file, null to ignore the column. A header without an entry is the field name. */
  mapping?: Mapping | null | undefined;
  /** Guesses the fields of columns whose header names none. */
  guess?: boolean;
  /** False: the first line is a record. Default: it is the header. */
  hasHeader?: boolean;
  /** If false, a column of no known field makes the import fail, unless fields are guessed. */
  ignoreUnknown: boolean;
  /** Default: as the format has it. */
  invalidValues?: InvalidValues | undefined;
  /** What the customer has declared of the custom fields of these records. */
  declared?: readonly DeclaredField[] | undefined;
}

/** Returns undefined if the import only creates records. */
export const matchOf = ({ mode, match }: ImportFile): MatchField | undefined =>
  mode === 'create' ? undefined : (match ?? 'id');

export const importColumn = (object: ImportFile['object'], field: string): FileColumn | undefined =>
  object === 'contacts' && field === fullNameColumn.name ? fullNameColumn : columnNamed(importedFields[object], field);

/** Returns what is declared of the field of a column. */
export const declaredColumn = ({ declared }: ImportFile, field: string | null): DeclaredField | undefined =>
  declared?.find(({ key }) => field === `custom_fields.${key}`);

/** What happens to a value that cannot be read: it is left out with a warning, or its record fails. */
export const invalidValuesOf = ({ format, invalidValues }: ImportFile): InvalidValues =>
  invalidValues ?? (format === 'ndjson' ? 'fail' : 'skip');

/**
 * Returns the read-only fields, such as `score`, which an import ignores, and `id` unless it identifies the records.
 */
export function ignoredFields(file: ImportFile): ReadonlySet<string> {
  const { shown, create } = importedFields[file.object];
  const written = new Set([...Object.keys(create.properties), matchOf(file)]);
  return new Set(Object.keys(shown.properties).filter((name) => !written.has(name)));
}
