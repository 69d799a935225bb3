import { createHash } from 'node:crypto';
import type { Requester } from '../../credentials/requester.ts';
import type { Database } from '../../database/db.ts';
import { validationFailed } from '../../errors.ts';
import { readErrorsLines, type Failure } from '../../files/errors-file.ts';
import { columnNames } from '../../files/layout/column-names.ts';
import type { CsvLayout } from '../../files/layout/layout.ts';
import { fileWarnings, footerText } from '../../files/layout/file-warnings.ts';
import { misreadText } from '../../files/layout/misread.ts';
import { leftOut } from '../../files/layout/settle-layout.ts';
import { readErrors, type ErrorsPlace } from '../../queries/imports/import-errors.ts';
import type { VisibleImports } from '../../queries/imports/imports.ts';
import { lengthOf } from '../../text/code-points.ts';
import { findErrors } from './errors-file.ts';

export interface FailurePage {
  failures: Failure[];
  /** Undefined on the last page. */
  nextCursor: string | undefined;
}

/** Length of a page's text (characters): records can be large, so a page can be shorter than its limit. */
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
  let place = cursor === undefined ? start : placeOf(customerId, found.id, cursor);
  const layout = await readLayout();
  const failures: Failure[] = cursor === undefined ? warningsOfFile(layout) : [];
  if (failures.length === limit) return { failures, nextCursor: cursorOf(customerId, found.id, place) };
  let length = 0;
  for (;;) {
    const from = place;
    const part =
      from.position === atFooter
        ? undefined
        : await readWhole(db, customerId, found.id, from, (text, isLast) =>
            readErrorsLines(layout, text, { isLast, most: limit - failures.length }),
          );
    if (!part) {
      const footer = footerOf(layout);
      const at = from.position === atFooter ? from.offset : 0;
      const end = at + limit - failures.length;
      const nextCursor =
        end < footer.length ? cursorOf(customerId, found.id, { position: atFooter, offset: end }) : undefined;
      return { failures: [...failures, ...footer.slice(at, end)], nextCursor };
    }
    failures.push(...part.failures);
    place = part.next;
    length += part.length;
    if (failures.length === limit || length > pageLength)
      return { failures, nextCursor: cursorOf(customerId, found.id, place) };
  }
}

/** Behind all stored records. */
const atFooter = 999_999_999_999_999;

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

/** Reads stored lines from a place, until they contain a whole record. Returns undefined at the end. */
async function readWhole(
  db: Database,
  customerId: string,
  importId: string,
  from: ErrorsPlace,
  read: (text: string, isLast: boolean) => { failures: Failure[]; length: number },
): Promise<{ failures: Failure[]; length: number; next: ErrorsPlace } | undefined> {
  let text = '';
  for (let at = from; ;) {
    const place = at;
    const part = await db.search((sql) => readErrors(sql, customerId, importId, place));
    if (!part) return undefined;
    text += part.text;
    // The place after the last part of stored lines is the start of the next ones.
    const isLast = part.next.offset === 0;
    const { failures, length } = read(text, isLast);
    const isWhole = length === text.length && isLast;
    if (failures.length > 0 || isWhole) {
      const position = part.next.position - (isLast ? 1 : 0);
      const offset = (position === from.position ? from.offset : 0) + lengthOf(text.slice(0, length));
      return { failures, length, next: isWhole ? part.next : { position, offset } };
    }
    at = part.next;
  }
}

const start: ErrorsPlace = { position: 0, offset: 0 };

/** A cursor belongs to one import. */
const scopeOf = (customerId: string, importId: string): string =>
  createHash('sha256').update(`failures ${customerId} ${importId}`).digest('base64url').slice(0, 16);

const cursorOf = (customerId: string, importId: string, { position, offset }: ErrorsPlace): string =>
  Buffer.from(`${scopeOf(customerId, importId)} ${position} ${offset}`).toString('base64url');

function placeOf(customerId: string, importId: string, cursor: string): ErrorsPlace {
  const [, scope, position, offset] =
    /^(\S+) (\d{1,15}) (\d{1,9})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (scope !== scopeOf(customerId, importId))
    throw validationFailed([{ path: '/cursor', message: 'is not a cursor of the failures of this import' }]);
  return { position: Number(position), offset: Number(offset) };
}
