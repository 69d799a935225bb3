import type { Sql } from '../../database/db.ts';
import type { Column } from '../../filters/columns.ts';
import { encodeCursor, readPosition, type Position } from '../../filters/cursor.ts';
import { defaultLimit, type Paginate } from '../../schemas/base/wire.ts';

export const limitAndOffset = (sql: Sql, { page = 1, limit = defaultLimit }: Paginate = {}) => sql`
  limit ${limit}
  offset ${(page - 1) * limit}`;

export type PageOrCursor = Paginate & { cursor?: string };

/** The settings for the cursors of one list. A cursor is a text that tells where a page ended. */
interface Keyset {
  /** Hash of the customer and the list that a cursor is valid for. */
  scope: string;
  /** The sort columns, whose values a cursor contains. A cursor also contains the id of the page's last row. */
  columns: Column[];
}

/**
 * Reads the cursor of a request. Returns the position where the previous page ended, or undefined if the request has no
 * cursor.
 * @throws DomainError `validation_failed` if the cursor is invalid or belongs to another list
 */
export const positionBefore = ({ scope, columns }: Keyset, paginate: PageOrCursor = {}): Position | undefined =>
  readPosition(scope, columns, paginate, 'this list');

/**
 * Returns the cursor for the page after `rows`. Returns undefined if `rows` is not a full page, because then no page
 * follows.
 */
export function cursorAfter<Row>(
  { scope }: Keyset,
  { limit = defaultLimit }: PageOrCursor = {},
  rows: readonly Row[],
  positionOf: (row: Row) => Position,
): string | undefined {
  return rows.length === limit ? encodeCursor(scope, positionOf(rows.at(-1)!)) : undefined;
}
