import type { Database } from '../database/db.ts';
import { conflict } from '../errors.ts';
import type { ImportFile } from '../files/import-file.ts';
import { readPart, type StoredFile } from '../queries/import-files.ts';
import type { ImportSettings } from '../queries/imports.ts';

/** Size of the parts in which a stored file is read (bytes). */
const partBytes = 256 * 1024;

/** Returns the file of an import as it is stored. */
export const storedFileOf = (row: { id: string; upload: string | null; file_bytes: number | null }): StoredFile => ({
  importId: row.id,
  upload: row.upload!,
  bytes: row.file_bytes!,
});

/** Returns how the file of an import is read. */
export const importFileOf = ({ object, mode, match, format, mapping, ...rest }: ImportSettings): ImportFile => ({
  object,
  mode,
  ...(match === null ? {} : { match }),
  format,
  mapping,
  ignoreUnknown: rest.ignore_unknown,
});

/**
 * Reads a stored file from a position on. Between two parts it holds no connection.
 * @param from where to start (bytes)
 * @throws conflict if the import has ended meanwhile, because its file is then removed
 */
export async function* partsOf(
  db: Database,
  customerId: string,
  file: StoredFile,
  from: number,
): AsyncGenerator<Buffer> {
  for (let at = from; at < file.bytes;) {
    const part = await db.search((sql) => readPart(sql, customerId, file, { from: at, length: partBytes }));
    if (!part) throw conflict('The import has ended, and its file is removed');
    yield part;
    at += part.length;
  }
}
