import type { Database } from '../database/db.ts';
import { conflict } from '../errors.ts';
import { errorsHeader } from '../files/errors-file.ts';
import { FileRefused } from '../files/file-refused.ts';
import { readHeader, type CsvLayout } from '../files/layout.ts';
import { readErrors } from '../queries/import-errors.ts';
import { requireImportState, type ImportState, type VisibleImports } from '../queries/imports.ts';
import { partsOf, storedFileOf } from './import-source.ts';

/**
 * Returns the text of the errors file of an import, as a stream. The errors file is a CSV file with the records that
 * failed. No database connection is held while the caller processes a piece of the text.
 * @throws DomainError `not_found` if the import does not exist; `conflict` if no file has been uploaded yet, or if the
 * failed records were removed 30 days after the end of the import.
 */
export async function readErrorsFile(
  db: Database,
  customerId: string,
  { id, visible }: { id: string; visible: VisibleImports },
): Promise<AsyncGenerator<string>> {
  const found = await db.lookup((sql) => requireImportState(sql, customerId, id, visible));
  if (found.file_bytes === null) throw conflict('The import has no file yet');
  if (found.purged_at !== null && found.failed > 0)
    throw conflict('The failed records were removed 30 days after the end of the import');
  return errorLines(db, customerId, found.id, errorsHeader(await layoutOf(db, customerId, found)));
}

/**
 * Returns the header line and columns of the import's CSV file, or null for an NDJSON file. If the header line cannot
 * be read, the result has no columns.
 */
async function layoutOf(db: Database, customerId: string, found: ImportState): Promise<CsvLayout | null> {
  if (found.format === 'ndjson' || found.layout) return found.layout as CsvLayout | null;
  const none: CsvLayout = { separator: ',', headers: [], columns: [], start: { bytes: 0, line: 1 } };
  if (found.status !== 'UPLOADED' && found.status !== 'PENDING') return none;
  try {
    return { ...(await readHeader(partsOf(db, customerId, storedFileOf(found), 0))), columns: [] };
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    return none;
  }
}

async function* errorLines(db: Database, customerId: string, importId: string, header: string): AsyncGenerator<string> {
  yield header;
  for (let after = -1; ;) {
    const position = after;
    const next = await db.search((sql) => readErrors(sql, customerId, importId, position));
    if (!next) return;
    yield next.lines;
    after = next.position;
  }
}
