import type { Requester } from '../../credentials/requester.ts';
import type { Database } from '../../database/db.ts';
import { conflict } from '../../errors.ts';
import { toUtf8 } from '../../files/encodings.ts';
import { FileRefused } from '../../files/file-refused.ts';
import { openXlsx } from '../../files/xlsx/sheet-rows.ts';
import type { ImportFile } from '../../files/import-file.ts';
import { Gate } from '../../limits/gate.ts';
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
  isWindowsByDefault: format === 'csv' && rest.encoding === 'auto' && rest.found_encoding === 'windows-1252',
  mapping,
  guess: rest.guess,
  hasHeader: rest.has_header,
  ignoreUnknown: rest.ignore_unknown,
  invalidValues: rest.invalid_values ?? undefined,
});

/** The encoding by which a text file is read. */
export const encodingOf = ({ format, encoding, found_encoding: found }: ImportSettings): string =>
  format === 'ndjson' || encoding === 'auto' ? (found ?? 'utf-8') : encoding;

/** A stored file as it is read: UTF-8 text, or the rows of a sheet. */
export interface ImportSource {
  /** False if the parts are converted while they are read. */
  isStored: boolean;
  /** Names of the sheets of an XLSX file, in order. Null for other formats. */
  sheets: string[] | null;
  /**
   * @param from offset of the first byte
   * @throws FileRefused if the file cannot be read as what it should be
   */
  partsFrom(from: number): AsyncGenerator<Buffer>;
}

/** Limits how many XLSX files requests read at the same time: each holds the shared texts of its file in memory. */
const sheetReads = new Gate({ name: 'sheet_reads', limit: 2 });

/**
 * Opens a complete file for a request, and reads it with `read`. Reading an XLSX file waits for a place. The customers
 * share these places fairly. The reading ends when the request is aborted.
 * @throws FileRefused if the file cannot be read as what it should be
 */
export async function readSource<T>(
  db: Database,
  requester: Requester,
  row: Parameters<typeof openSource>[2],
  read: (source: ImportSource) => Promise<T>,
): Promise<T> {
  const openAndRead = async () => read(await openSource(db, requester.customerId, row, requester.signal));
  return row.format === 'xlsx' && !row.is_converted ? sheetReads.run(requester, openAndRead) : openAndRead();
}

/**
 * Opens a complete file.
 * @param signal ends the reading of an XLSX file
 * @throws FileRefused if the file begins with the byte order mark of another encoding
 */
export async function openSource(
  db: Database,
  customerId: string,
  row: ImportSettings & Parameters<typeof storedFileOf>[0],
  signal?: AbortSignal,
): Promise<ImportSource> {
  const parts = (from: number) => partsOf(db, customerId, storedFileOf(row), from);
  if (row.format === 'xlsx' && !row.is_converted) {
    const { sheets, rows } = await openXlsx(parts, row.file_bytes!, signal);
    return { isStored: false, sheets, partsFrom: (from) => startingAt(rows(row.sheet, row.has_header), from) };
  }
  const encoding = encodingOf(row);
  if (row.has_mark && encoding !== row.found_encoding)
    throw new FileRefused(
      `begins with the byte order mark of ${row.found_encoding!.toUpperCase()}, but the import names ${encoding}`,
      undefined,
      'leave `encoding` out',
    );
  if (row.is_converted || encoding === 'utf-8') return { isStored: true, sheets: null, partsFrom: parts };
  return { isStored: false, sheets: null, partsFrom: (from) => startingAt(toUtf8(parts(0), encoding), from) };
}

/** Leaves out the first bytes. */
async function* startingAt(chunks: AsyncIterable<Buffer>, from: number): AsyncGenerator<Buffer> {
  let skipped = 0;
  for await (const chunk of chunks) {
    const rest = chunk.subarray(Math.min(chunk.length, from - skipped));
    skipped += chunk.length - rest.length;
    if (rest.length > 0) yield rest;
  }
}

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
