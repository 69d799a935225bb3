import type { Sql } from '../db.ts';
import { validationFailed } from '../errors.ts';
import type { Column } from '../filters/columns.ts';
import { decodeCursor, encodeCursor, type Position } from '../filters/cursor.ts';
import type { Paginate } from '../schemas/wire.ts';

/** The clause that cuts a page by number out of an ordered list. */
export const pageOf = (sql: Sql, { page = 1, limit = 25 }: Paginate = {}) => sql`
  limit ${limit}
  offset ${(page - 1) * limit}`;

/** Which page of a list that can also be read on by cursor. */
export type PageOrCursor = Paginate & { cursor?: string };

/** What cursors of a list are bound to, and the columns whose values they carry beside the id. */
export interface Keyset {
  scope: string;
  columns: Column[];
}

/**
 * Where the page before ended, of a page by cursor.
 * @throws DomainError `validation_failed`
 */
export function positionBefore({ scope, columns }: Keyset, { page, cursor }: PageOrCursor = {}): Position | undefined {
  if (cursor === undefined) return undefined;
  const fault = (message: string) => validationFailed([{ path: '/paginate/cursor', message }]);
  if (page !== undefined) throw fault('cannot stand together with page');
  const position = decodeCursor(scope, columns, cursor);
  if (!position) throw fault('is not a cursor that was given with this list');
  return position;
}

/** The cursor that continues after a page; undefined when the page is not full. */
export function cursorAfter<Row>(
  { scope }: Keyset,
  { limit = 25 }: PageOrCursor = {},
  rows: readonly Row[],
  positionOf: (row: Row) => Position,
): string | undefined {
  return rows.length === limit ? encodeCursor(scope, positionOf(rows.at(-1)!)) : undefined;
}
