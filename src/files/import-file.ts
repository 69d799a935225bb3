import { companyFileFields, contactFileFields, type FileFields, type FileFormat } from '../schemas/files.ts';
import type { MatchField } from '../schemas/batches.ts';
import { columnNamed, type FileColumn } from './columns.ts';

/** Settings for reading the uploaded file of an import: what the file contains, and how its records are imported. */
export interface ImportFile {
  object: 'contacts' | 'companies';
  mode: 'create' | 'update' | 'upsert';
  /**
   * The field by which an import finds the existing record that it changes. Default: `id`. Ignored in the mode
   * `create`.
   */
  match?: MatchField | undefined;
  format: FileFormat;
  /**
   * The field names for the columns of a CSV file. Key: header of the column. Value: field name, or null to ignore the
   * column. A header without an entry is used as the field name.
   */
  mapping?: Record<string, string | null> | null | undefined;
  /** True if columns that belong to no known field are ignored. False if such a column makes the import fail. */
  ignoreUnknown: boolean;
}

const fieldsOf: Record<ImportFile['object'], FileFields> = {
  contacts: contactFileFields,
  companies: companyFileFields,
};

/** Returns the field that identifies existing records. Returns undefined if the import only creates new records. */
export const matchOf = ({ mode, match }: ImportFile): MatchField | undefined =>
  mode === 'create' ? undefined : (match ?? 'id');

/** Returns the column for a field name, or undefined if records of this kind have no such field. */
export const importColumn = (object: ImportFile['object'], field: string): FileColumn | undefined =>
  columnNamed(fieldsOf[object], field);

/**
 * Returns the read-only fields of a record, such as `score`. An import ignores these fields. The field `id` is one of
 * them, except in an import that identifies records by `id`.
 */
export function ignoredFields(file: ImportFile): ReadonlySet<string> {
  const { shown, create } = fieldsOf[file.object];
  const written = new Set([...Object.keys(create.properties), matchOf(file)]);
  return new Set(Object.keys(shown.properties).filter((name) => !written.has(name)));
}
