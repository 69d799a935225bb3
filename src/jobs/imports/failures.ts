import { createHash } from 'node:crypto';
import type { Requester } from '../../credentials/requester.ts';
import type { Database } from '../../database/db.ts';
import { validationFailed } from '../../errors.ts';
import { failureOf, type Failure } from '../../files/errors-file.ts';
import { columnNames } from '../../files/layout/column-names.ts';
import type { CsvLayout } from '../../files/layout/layout.ts';
import { fileWarnings, footerText } from '../../files/layout/file-warnings.ts';
import { misreadText } from '../../files/layout/misread.ts';
import { leftOut } from '../../files/layout/settle-layout.ts';
import { fromStored } from '../../files/stored-rows.ts';
import { readRows } from '../../queries/imports/import-rows.ts';
import type { VisibleImports } from '../../queries/imports/imports.ts';
import { findErrors, messageOf } from './errors-file.ts';

export interface FailurePage {
  failures: Failure[];
  /** Undefined on the last page. */
  nextCursor: string | undefined;
}

/** Size of a page (bytes): records can be large, so a page can be shorter than its limit. */
const pageLength = 512 * 1024;

/**
 * Reads one page of an import's failed records, in the order of the file.
 * @throws DomainError `not_found`; `validation_failed` if the cursor is of another import; `conflict` if no file has been
 * uploaded yet, or if the failed records were removed 30 days after the end of the import
 */
export async function readFailures(
  db: Database,
  requester: Requester,
  given: { id: string; visible: VisibleImports },
  { limit, cursor }: { limit: number; cursor: string | undefined },
): Promise<FailurePage> {
  const { customerId } = requester;
  const { found, readLayout } = await findErrors(db, requester, given);
  let after = cursor === undefined ? 0 : lineOf(customerId, found.id, cursor);
  const layout = await readLayout();
  const failures: Failure[] = cursor === undefined ? warningsOfFile(layout) : [];
  const nextCursor = (): string => cursorOf(customerId, found.id, after);
  for (let length = 0; failures.length < limit && length <= pageLength;) {
    const part = { after, limit: limit - failures.length, failed: true, bytes: pageLength };
    const rows = await db.search((sql) => readRows(sql, customerId, found.id, part));
    if (rows.length === 0) {
      const footer = footerOf(layout).filter(({ line }) => line > after);
      const shown = footer.slice(0, limit - failures.length);
      failures.push(...shown);
      after = shown.at(-1)?.line ?? after;
      return { failures, nextCursor: footer.length > shown.length ? nextCursor() : undefined };
    }
    for (const { line, cells, ...message } of rows)
      failures.push(failureOf(layout, fromStored(line, cells), messageOf(message), found.format));
    after = rows.at(-1)!.line;
    for (const { cells } of rows) length += cells.length;
  }
  return { failures, nextCursor: nextCursor() };
}

/** Returns a warning for each record at the end of the file that is left out as a footer. These are not stored. */
function footerOf(layout: CsvLayout | null): Failure[] {
  const keys = columnNames(layout?.headers ?? []);
  return (layout?.footer ?? []).map(({ line, column, text }) => ({
    line,
    warning: `is left out: ${footerText}`,
    record: { [keys[column] ?? `Column ${column + 1}`]: text },
  }));
}

/**
 * Returns a warning about the file as a whole, which is not stored: texts that look wrong, and columns that are left out
 * because nothing names a field for them.
 */
function warningsOfFile(layout: CsvLayout | null): Failure[] {
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
  return `the ${columns} ${names.join(', ')}${others} ${are} left out: nothing says what to read`;
}

const maxNamed = 50;

/** A cursor belongs to one import. */
const scopeOf = (customerId: string, importId: string): string =>
  createHash('sha256').update(`failures ${customerId} ${importId}`).digest('base64url').slice(0, 16);

const cursorOf = (customerId: string, importId: string, line: number): string =>
  Buffer.from(`${scopeOf(customerId, importId)} ${line}`).toString('base64url');

function lineOf(customerId: string, importId: string, cursor: string): number {
  const [, scope, line] = /^(\S+) (\d{1,9})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (scope !== scopeOf(customerId, importId))
    throw validationFailed([{ path: '/cursor', message: 'is not a cursor of the failures of this import' }]);
  return Number(line);
}
