import type { Requester } from '../../credentials/requester.ts';
import type { Database } from '../../database/db.ts';
import { conflict, DomainError } from '../../errors.ts';
import { encoderOf } from '../../files/encodings.ts';
import { errorsHeader, errorsLine, type Message } from '../../files/errors-file.ts';
import { FileRefused } from '../../files/file-refused.ts';
import { readHeaderOf, type CsvLayout } from '../../files/layout/layout.ts';
import { fromStored } from '../../files/stored-rows.ts';
import { readRows, type ImportRecord } from '../../queries/imports/import-rows.ts';
import { requireImportState, type ImportState, type VisibleImports } from '../../queries/imports/imports.ts';
import { encodingOf, importFileOf, readSource } from './import-source.ts';

export interface ErrorsFile {
  /** The content type. */
  type: string;
  /** No connection is held while the caller processes a piece. */
  read: () => Promise<AsyncGenerator<Buffer>>;
}

/**
 * Returns the CSV file of failed records, with separator and encoding of the original.
 * @throws DomainError `not_found`; `conflict` if no file has been uploaded yet, or if the failed records were removed
 * 30 days after the end of the import
 */
export async function openErrorsFile(db: Database, requester: Requester, given: GivenImport): Promise<ErrorsFile> {
  const { customerId } = requester;
  const { found, readLayout } = await findErrors(db, requester, given);
  const original = found.format === 'csv' ? encodingOf(found) : 'utf-8';
  const { encoding, mark, encode } = encoderOf(original);
  async function* bytes(begun: CsvLayout | null): AsyncGenerator<Buffer> {
    if (encoding !== 'utf-8' || original !== 'utf-8' || found.has_mark) yield mark;
    yield encode(errorsHeader(begun));
    for await (const text of errorLines(db, customerId, found, readLayout)) yield encode(text);
  }
  return { type: `text/csv; charset=${encoding}`, read: async () => bytes(await readLayout()) };
}

interface GivenImport {
  id: string;
  visible: VisibleImports;
}

/**
 * Finds the import, and returns a function that reads the columns of its file: null if it has no header line.
 * @throws DomainError `not_found`; `conflict` if no file has been uploaded yet, or if the failed records were removed
 */
export async function findErrors(
  db: Database,
  requester: Requester,
  given: GivenImport,
): Promise<{ found: ImportState; readLayout: () => Promise<CsvLayout | null> }> {
  const { customerId } = requester;
  const find = () => db.lookup((sql) => requireImportState(sql, customerId, given.id, given.visible));
  const found = await find();
  if (found.file_bytes === null) throw conflict('The import has no file yet');
  if (found.is_expired && found.failed + found.warnings > 0)
    throw conflict('The failed records were removed 30 days after the end of the import');
  const readLayout = async (): Promise<CsvLayout> =>
    // Stored when the first turn has ended. If the import ends while the header is read, it is stored by then.
    ((found.layout ?? (await readStoredHeader(db, requester, found)) ?? (await find()).layout) as CsvLayout | null) ??
    unreadable;
  const hasHeader = found.format === 'csv' || found.format === 'xlsx';
  return { found, readLayout: async () => (hasHeader ? readLayout() : null) };
}

/** For a CSV file whose header line cannot be read. */
const unreadable: CsvLayout = { separator: ',', headers: [], columns: [] };

/** Returns undefined if the header line cannot be read, or the file was removed because the import has ended. */
async function readStoredHeader(
  db: Database,
  requester: Requester,
  found: ImportState,
): Promise<CsvLayout | undefined> {
  try {
    const { separator, headers } = await readSource(db, requester, found, ({ content }) =>
      readHeaderOf(importFileOf(found), content),
    );
    return { separator, headers, columns: [] };
  } catch (error) {
    if (error instanceof FileRefused || (error instanceof DomainError && error.code === 'conflict')) return undefined;
    throw error;
  }
}

/** Size of the records that are read at once (bytes). */
const partBytes = 128 * 1024;

async function* errorLines(
  db: Database,
  customerId: string,
  { id, format }: Pick<ImportState, 'id' | 'format'>,
  readLayout: () => Promise<CsvLayout | null>,
): AsyncGenerator<string> {
  // Read now, because the import may have ended since the header line was sent.
  let known: { layout: CsvLayout | null } | undefined;
  for (let after = 0; ;) {
    const part = { after, limit: 1_000, failed: true, bytes: partBytes };
    const rows = await db.search((sql) => readRows(sql, customerId, id, part));
    if (rows.length === 0) return;
    const layout = (known ??= { layout: await readLayout() }).layout;
    yield rows
      .map(({ line, cells, ...message }) => errorsLine(layout, fromStored(line, cells), messageOf(message), format))
      .join('');
    after = rows.at(-1)!.line;
  }
}

export const messageOf = ({ error, warning }: Pick<ImportRecord, 'error' | 'warning'>): Message =>
  error === null ? { warning: warning! } : { error };
