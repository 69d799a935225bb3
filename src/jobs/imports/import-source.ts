import type { Database } from '../../database/db.ts';
import { conflict } from '../../errors.ts';
import type { ImportFile } from '../../files/import-file.ts';
import { readPart, type StoredFile } from '../../queries/imports/import-files.ts';
import type { ImportSettings } from '../../queries/imports/imports.ts';

/** Size of one part (bytes). */
const partBytes = 256 * 1024;

export const storedFileOf = (row: { id: string; upload: string | null; file_bytes: number | null }): StoredFile => ({
  importId: row.id,
  upload: row.upload!,
  bytes: row.file_bytes!,
});

export const importFileOf = ({ object, mode, match, format, mapping, ...rest }: ImportSettings): ImportFile => ({
  object,
  mode,
  ...(match === null ? {} : { match }),
  format,
  mapping,
  ignoreUnknown: rest.ignore_unknown,
});

/**
 * Yields a stored file in parts of up to 256 KiB. No connection is held while the caller processes one.
 * @param from offset of the first byte
 * @throws DomainError `conflict` if the import ended meanwhile, because the file is deleted then
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
