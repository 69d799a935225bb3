import type { Requester } from '../access/credentials.ts';
import type { Database } from '../database/db.ts';
import { conflict, DomainError } from '../errors.ts';
import { all, type Column } from '../filters/columns.ts';
import { encodeCursor, readPosition, scopeOf } from '../filters/cursor.ts';
import { encoderOf, FileRefused } from '../files/encodings.ts';
import { failedRecords, type Message, type FailedRecords } from '../files/errors-file.ts';
import { readHeaderOf, type CsvLayout, fileWarnings, footerText, misreadText } from '../files/layout.ts';
import { fromStored } from '../files/stored-rows.ts';
import type { ImportFailure } from '../schemas/imports.ts';
import { readRows, type ImportRecord } from '../queries/jobs/import-rows.ts';
import { requireImportState, type ImportState, type ImportRef } from '../queries/jobs/imports.ts';
import { encodingOf, readSource } from './start-import.ts';
import { columnNames } from '../files/header.ts';
import { leftOut } from '../files/settle-layout.ts';

/**
 * Returns a CSV file of an import's failed records, in the encoding of the original file.
 * @throws DomainError `not_found`; `conflict` if no file was uploaded, or the failed records were removed 30 days after
 * the end
 */
export async function openErrorsFile(db: Database, requester: Requester, given: ImportRef) {
  const found = await findState(db, requester, given);
  const readLayout = layoutReader(db, requester, given, found);
  const original = found.format === 'csv' ? encodingOf(found) : 'utf-8';
  const { encoding, mark, encode } = encoderOf(original);
  async function* bytes(begun: CsvLayout | null): AsyncGenerator<Buffer> {
    if (encoding !== 'utf-8' || original !== 'utf-8' || found.has_mark) yield mark;
    yield encode(failedRecords(begun, found.format).header);
    for await (const text of errorLines(db, requester.customerId, found, readLayout)) yield encode(text);
  }
  return { type: `text/csv; charset=${encoding}`, read: async () => bytes(await readLayout()) };
}

const findState = (db: Database, { customerId }: Requester, { id, visible }: ImportRef): Promise<ImportState> =>
  db.lookup((sql) => requireImportState(sql, customerId, id, visible));

/**
 * Returns a function that reads the columns of an import's file. It returns null if the file has no header line (NDJSON).
 * @throws DomainError `conflict` if no file was uploaded, or the failed records were removed
 */
function layoutReader(db: Database, requester: Requester, given: ImportRef, found: ImportState) {
  if (found.file_bytes === null) throw conflict('The import has no file yet');
  if (found.is_expired && found.failed + found.warnings > 0)
    throw conflict('The failed records were removed 30 days after the end of the import');
  return async (): Promise<CsvLayout | null> => {
    if (found.format !== 'csv' && found.format !== 'xlsx') return null;
    // Stored when the first turn has ended. If the import ends while the header is read, it is stored by then.
    const known = found.layout ?? (await readStoredHeader(db, requester, found));
    const layout = known ?? (await findState(db, requester, given)).layout;
    return (layout as CsvLayout | null) ?? unreadable;
  };
}

const unreadable: CsvLayout = { separator: ',', headers: [], columns: [] };

async function readStoredHeader(db: Database, requester: Requester, found: ImportState) {
  try {
    const { separator, headers } = await readSource(db, requester, found, ({ content }) =>
      readHeaderOf(found, content),
    );
    return { separator, headers, columns: [] };
  } catch (error) {
    if (error instanceof FileRefused || (error instanceof DomainError && error.code === 'conflict')) return undefined;
    throw error;
  }
}

const partBytes = 128 * 1024;

/** Returns the next records with a message. What a check has told is old once its columns change. */
const failedRows = async (
  db: Database,
  customerId: string,
  { id, status }: ImportState,
  part: Omit<Parameters<typeof readRows>[3], 'isFailed'>,
): Promise<ImportRecord[]> =>
  status === 'UPLOADED' ? [] : db.search((sql) => readRows(sql, customerId, id, { ...part, isFailed: true }));

async function* errorLines(
  db: Database,
  customerId: string,
  found: ImportState,
  readLayout: () => Promise<CsvLayout | null>,
): AsyncGenerator<string> {
  // Read now, because the import may have ended since the header line was sent.
  let shown: FailedRecords | undefined;
  for (let after = 0; ;) {
    const rows = await failedRows(db, customerId, found, { after, limit: 1_000, bytes: partBytes });
    if (rows.length === 0) return;
    const { lineOf } = (shown ??= failedRecords(await readLayout(), found.format));
    yield rows.map((row) => lineOf(fromStored(row.line, row.cells), messageOf(row))).join('');
    after = rows.at(-1)!.line;
  }
}

const messageOf = ({ error, warning }: Pick<ImportRecord, 'error' | 'warning'>): Message =>
  error === null ? { warning: warning! } : { error };

const lineColumn: Column = { type: 'integer', value: 'line', raw: 'line', required: true };

/** Maximum size of the records on one page (bytes). A page can therefore have fewer records than its limit. */
const pageLength = 512 * 1024;

/**
 * Returns one page of an import's failed records, in the order of the file.
 * @throws DomainError `not_found`; `validation_failed` if the cursor is from another import; `conflict` if no file was
 * uploaded, or the failed records were removed 30 days after the end
 */
export async function readFailures(
  db: Database,
  requester: Requester,
  given: ImportRef,
  { limit, cursor }: { limit: number; cursor: string | undefined },
) {
  const { customerId } = requester;
  const found = await findState(db, requester, given);
  const readLayout = layoutReader(db, requester, given, found);
  const scope = scopeOf(`failures ${found.id}`, customerId, all([]), []);
  const position = readPosition(scope, [lineColumn], { cursor }, 'the failures of this import', '/cursor');
  let after = Number(position?.values[0] ?? 0);
  const layout = await readLayout();
  const { failureOf } = failedRecords(layout, found.format);
  const failures: ImportFailure[] = cursor === undefined ? warningsOfFile(layout) : [];
  const nextCursor = () => encodeCursor(scope, { id: found.id, values: [after] });
  for (let length = 0; failures.length < limit && length <= pageLength;) {
    const part = { after, limit: limit - failures.length, bytes: pageLength };
    const rows = await failedRows(db, customerId, found, part);
    if (rows.length === 0) {
      const footer = footerOf(layout).filter(({ line }) => line > after);
      const shown = footer.slice(0, limit - failures.length);
      failures.push(...shown);
      after = shown.at(-1)?.line ?? after;
      return { failures, nextCursor: footer.length > shown.length ? nextCursor() : undefined };
    }
    for (const { line, cells, ...message } of rows)
      failures.push(failureOf(fromStored(line, cells), messageOf(message)));
    after = rows.at(-1)!.line;
    for (const { cells } of rows) length += cells.length;
  }
  return { failures, nextCursor: nextCursor() };
}

function footerOf(layout: CsvLayout | null): ImportFailure[] {
  const keys = columnNames(layout?.headers ?? []);
  return (layout?.footer ?? []).map(({ line, column, text }) => ({
    line,
    warning: `is left out: ${footerText}`,
    record: { [keys[column] ?? `Column ${column + 1}`]: text },
  }));
}

/**
 * Returns the warnings about the whole file as one entry for line 1. Examples: wrong characters, columns without a
 * field.
 */
function warningsOfFile(layout: CsvLayout | null): ImportFailure[] {
  // Before the whole file is read, nothing is left out.
  if (!layout?.omitted) return [];
  const left = leftOut(layout);
  const keys = columnNames(layout.headers);
  const warnings = [
    ...(layout.misread === undefined ? [] : [misreadText(layout.misread)]),
    ...(left.length === 0 ? [] : [leftOutText(left.map((i) => keys[i]!))]),
    ...fileWarnings({ ...layout, footer: [] }),
  ];
  if (warnings.length === 0) return [];
  const record = Object.fromEntries(left.map((i) => [keys[i]!, layout.headers[i]!]));
  return [{ line: 1, warning: warnings.join('; '), record }];
}

function leftOutText(left: readonly string[]): string {
  const names = left.slice(0, maxNamed).map((key) => JSON.stringify(key.slice(0, 100)));
  const others = left.length > maxNamed ? ` and ${left.length - maxNamed} more` : '';
  const [columns, are] = left.length === 1 ? ['column', 'is'] : ['columns', 'are'];
  return `the ${columns} ${names.join(', ')}${others} ${are} left out: no field is chosen for ${left.length === 1 ? 'it' : 'them'}`;
}

const maxNamed = 50;
