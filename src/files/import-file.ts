import { companyFileFields, contactFileFields, type FileFields, type FileFormat } from '../schemas/files.ts';
import type { MatchField } from '../schemas/batches.ts';
import { columnNamed, type FileColumn } from './columns.ts';

/** What an uploaded file contains, and how its records are imported. */
export interface ImportFile {
  object: 'contacts' | 'companies';
  mode: 'create' | 'update' | 'upsert';
  /** The field that identifies the record to change. `id` by default; not used by the mode `create`. */
  match?: MatchField | undefined;
  format: FileFormat;
  /** The field for each named header of a CSV file; null leaves the column out. Other headers are names of fields. */
  mapping?: Record<string, string | null> | null | undefined;
  /** Whether columns whose header is not the name of a field are left out. If not, the file is refused. */
  ignoreUnknown: boolean;
}

const fieldsOf: Record<ImportFile['object'], FileFields> = {
  contacts: contactFileFields,
  companies: companyFileFields,
};

/** Returns the field that identifies the records of a file; undefined if the import only creates records. */
export const matchOf = ({ mode, match }: ImportFile): MatchField | undefined =>
  mode === 'create' ? undefined : (match ?? 'id');

/** Returns the column for a field, or undefined if records of this kind have no such field. */
export const importColumn = (object: ImportFile['object'], field: string): FileColumn | undefined =>
  columnNamed(fieldsOf[object], field);

/**
 * Returns the fields of a record that only the service writes, such as `score`. An import ignores them. `id` is one of
 * them unless it identifies the record.
 */
export function ignoredFields(file: ImportFile): ReadonlySet<string> {
  const { shown, create } = fieldsOf[file.object];
  const written = new Set([...Object.keys(create.properties), matchOf(file)]);
  return new Set(Object.keys(shown.properties).filter((name) => !written.has(name)));
}
