import type { Requester } from '../../credentials/requester.ts';
import type { Database } from '../../database/db.ts';
import { conflict } from '../../errors.ts';
import { textsOf } from '../../files/encodings.ts';
import { FileRefused } from '../../files/file-refused.ts';
import type { Content } from '../../files/layout/header.ts';
import { openXlsx } from '../../files/xlsx/sheet-rows.ts';
import type { ImportFile } from '../../files/import-file.ts';
import { Gate } from '../../limits/gate.ts';
import { chunkBytes, readChunk, type StoredFile } from '../../queries/imports/import-files.ts';
import type { ImportSettings } from '../../queries/imports/imports.ts';

const storedFileOf = (row: { id: string; upload: string | null; file_bytes: number | null }): StoredFile => ({
  importId: row.id,
  upload: row.upload!,
  bytes: row.file_bytes!,
});

export const importFileOf = ({ object, mode, match, format, mapping, ...rest }: ImportSettings): ImportFile => ({
  object,
  mode,
  ...(match === null ? {} : { match }),
  format,
  isWindowsByDefault: format === 'csv' && rest.encoding === 'auto' && rest.found_encoding === 'windows-1252',
  mapping,
  guess: rest.guess,
  hasHeader: rest.has_header,
  ignoreUnknown: rest.ignore_unknown,
  invalidValues: rest.invalid_values ?? undefined,
  declared: rest.declared,
});

/** The encoding by which a text file is read. */
export const encodingOf = ({ format, encoding, found_encoding: found }: ImportSettings): string =>
  format === 'ndjson' || encoding === 'auto' ? (found ?? 'utf-8') : encoding;

/** A stored file as it is read: its text, or the rows of a sheet. */
export interface ImportSource {
  content: Content;
  /** Names of the sheets of an XLSX file, in order. Null for other formats. */
  sheets: string[] | null;
}

type SourceRow = ImportSettings & Parameters<typeof storedFileOf>[0];

/** Limits how many XLSX files requests read at the same time: each holds the shared texts of its file in memory. */
const sheetReads = new Gate({ name: 'sheet_reads', limit: 2 });

/**
 * Opens a complete file for a request, and reads it with `read`. Reading an XLSX file waits for a place. The customers
 * share these places fairly. The reading ends when the request is aborted.
 * @throws FileRefused if the file cannot be read as what it should be
 */
export function readSource<T>(
  db: Database,
  requester: Requester,
  row: SourceRow,
  read: (source: ImportSource) => Promise<T>,
): Promise<T> {
  const openAndRead = () => withSource(db, requester.customerId, row, read, requester.signal);
  return row.format === 'xlsx' ? sheetReads.run(requester, openAndRead) : openAndRead();
}

/**
 * Opens a complete file, reads it once with `read`, and closes it.
 * @param signal ends the reading of an XLSX file
 * @throws FileRefused if the file begins with the byte order mark of another encoding
 */
export async function withSource<T>(
  db: Database,
  customerId: string,
  row: SourceRow,
  read: (source: ImportSource) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const source = await openSource(db, customerId, row, signal);
  const { content } = source;
  try {
    return await read(source);
  } finally {
    await ('rows' in content ? content.rows : content.texts).return(undefined);
  }
}

async function openSource(
  db: Database,
  customerId: string,
  row: SourceRow,
  signal: AbortSignal | undefined,
): Promise<ImportSource> {
  const parts = (from: number) => partsOf(db, customerId, storedFileOf(row), from);
  if (row.format === 'xlsx') {
    const { sheets, rows } = await openXlsx(parts, row.file_bytes!, signal);
    return { sheets, content: { rows: rows(row.sheet, row.has_header) } };
  }
  const encoding = encodingOf(row);
  if (row.has_mark && encoding !== row.found_encoding)
    throw new FileRefused(
      `begins with the byte order mark of ${row.found_encoding!.toUpperCase()}, but the import names ${encoding}`,
      undefined,
      'leave `encoding` out',
    );
  return { sheets: null, content: { texts: textsOf(parts(0), encoding) } };
}

/**
 * Yields a stored file in parts. No connection is held while the caller processes one.
 * @param from offset of the first byte
 * @throws DomainError `conflict` if the import ended meanwhile, because the file is deleted then
 */
async function* partsOf(db: Database, customerId: string, file: StoredFile, from: number): AsyncGenerator<Buffer> {
  for (let at = from; at < file.bytes;) {
    const offset = at;
    const chunk = await db.search((sql) => readChunk(sql, customerId, file, offset));
    if (!chunk) throw conflict('The import has ended, and its file is removed');
    const part = chunk.subarray(at % chunkBytes);
    yield part;
    at += part.length;
  }
}
