import type { Sql } from '../database/db.ts';
import type { Column } from '../filters/columns.ts';
import { encodeCursor, readPosition, type Position } from '../filters/cursor.ts';
import { defaultLimit, type Paginate } from '../schemas/wire.ts';

/** SQL `limit` and `offset` of a page by number. The first page has number 1. */
export const limitAndOffset = (sql: Sql, { page = 1, limit = defaultLimit }: Paginate = {}) => sql`
  limit ${limit}
  offset ${(page - 1) * limit}`;

/** A page of a list, by page number or by cursor. */
export type PageOrCursor = Paginate & { cursor?: string };

/** How a list is paged by cursor. */
export interface Keyset {
  /** The customer and list that a cursor is valid for. */
  scope: string;
  /** The columns whose values a cursor holds, in addition to the id. */
  columns: Column[];
}

/**
 * Returns the position in a request's cursor, where the page before ended; undefined without a cursor.
 * @throws DomainError `validation_failed` for an invalid cursor or a cursor of another list
 */
export const positionBefore = ({ scope, columns }: Keyset, paginate: PageOrCursor = {}): Position | undefined =>
  readPosition(scope, columns, paginate, 'this list');

/** Returns the cursor of the page after `rows`; undefined when `rows` is not a full page. */
export function cursorAfter<Row>(
  { scope }: Keyset,
  { limit = defaultLimit }: PageOrCursor = {},
  rows: readonly Row[],
  positionOf: (row: Row) => Position,
): string | undefined {
  return rows.length === limit ? encodeCursor(scope, positionOf(rows.at(-1)!)) : undefined;
}
