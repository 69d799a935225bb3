import type { Sql } from '../db.ts';
import type { Column } from '../filters/columns.ts';
import { encodeCursor, readPosition, type Position } from '../filters/cursor.ts';
import { defaultLimit, type Paginate } from '../schemas/wire.ts';

/** The clause that cuts a page by number out of an ordered list. */
export const pageOf = (sql: Sql, { page = 1, limit = defaultLimit }: Paginate = {}) => sql`
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
export const positionBefore = ({ scope, columns }: Keyset, paginate: PageOrCursor = {}): Position | undefined =>
  readPosition(scope, columns, paginate, 'this list');

/** The cursor that continues after a page; undefined when the page is not full. */
export function cursorAfter<Row>(
  { scope }: Keyset,
  { limit = defaultLimit }: PageOrCursor = {},
  rows: readonly Row[],
  positionOf: (row: Row) => Position,
): string | undefined {
  return rows.length === limit ? encodeCursor(scope, positionOf(rows.at(-1)!)) : undefined;
}
