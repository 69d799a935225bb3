import { companyFileFields, contactFileFields, type FileFields } from '../schemas/files.ts';
import type { MatchField } from '../schemas/batches.ts';
import type { ImportFormat } from '../schemas/imports.ts';
import { columnNamed, type FileColumn } from './columns.ts';

/** What an import's file contains, and how its records are imported. */
export interface ImportFile {
  object: 'contacts' | 'companies';
  mode: 'create' | 'update' | 'upsert';
  /** Identifies the existing record. Default: `id`. Ignored in the mode `create`. */
  match?: MatchField | undefined;
  /** `auto` for an empty file. */
  format: ImportFormat;
  /** Field names by header of a CSV or XLSX file, null to ignore the column. A header without an entry is the field name. */
  mapping?: Record<string, string | null> | null | undefined;
  /** If false, a column of no known field makes the import fail. */
  ignoreUnknown: boolean;
}

const fieldsOf: Record<ImportFile['object'], FileFields> = {
  contacts: contactFileFields,
  companies: companyFileFields,
};

/** Returns undefined if the import only creates records. */
export const matchOf = ({ mode, match }: ImportFile): MatchField | undefined =>
  mode === 'create' ? undefined : (match ?? 'id');

export const importColumn = (object: ImportFile['object'], field: string): FileColumn | undefined =>
  columnNamed(fieldsOf[object], field);

/**
 * Returns the read-only fields, such as `score`, which an import ignores, and `id` unless it identifies the records.
 */
export function ignoredFields(file: ImportFile): ReadonlySet<string> {
  const { shown, create } = fieldsOf[file.object];
  const written = new Set([...Object.keys(create.properties), matchOf(file)]);
  return new Set(Object.keys(shown.properties).filter((name) => !written.has(name)));
}
