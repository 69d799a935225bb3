import type { Sql } from '../../database/db.ts';
import type { Column } from '../../filters/columns.ts';
import { encodeCursor, readPosition, scopeOf, type Position } from '../../filters/cursor.ts';
import { constant, type Fragment } from '../../filters/sql.ts';
import { all } from '../../filters/tree.ts';
import { defaultLimit, type Paginate } from '../../schemas/base/wire.ts';

export interface RecordPage<Row> {
  rows: Row[];
  nextCursor: string | undefined;
}

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

/** A page of a list that is sorted by id, newest first. `after`: the id of the last row of the previous page. */
export type PageById = Paginate & { after?: string | undefined };

/** SQL condition for a page of a list that is sorted by id, newest first. */
export const isAfter = (sql: Sql, column: string, { after }: PageById = {}): Fragment =>
  after === undefined ? sql`true` : sql`${constant(sql, column)} < ${after}::uuid`;

/**
 * Reads one page of a list that is sorted by id, newest first.
 * @param list name of the list with its filters; a cursor is valid for one list of one customer
 * @throws DomainError `validation_failed` if the cursor is invalid or belongs to another list
 */
export const pageById = <Row extends { id: string }>(
  list: readonly unknown[],
  customerId: string,
  paginate: PageOrCursor = {},
  read: (page: PageById) => Promise<Row[]>,
): Promise<RecordPage<Row>> =>
  readPage({ list, customerId, columns: [], positionOf: ({ id }) => ({ id, values: [] }) }, paginate, (after) =>
    read({ ...paginate, after: after?.id }),
  );

interface PagedList<Row> {
  list: readonly unknown[];
  customerId: string;
  columns: Column[];
  positionOf: (row: Row) => Position;
}

/** Reads one page of a list in another order than `pageById`. */
export async function readPage<Row>(
  { list, customerId, columns, positionOf }: PagedList<Row>,
  paginate: PageOrCursor = {},
  read: (after: Position | undefined) => Promise<Row[]>,
): Promise<RecordPage<Row>> {
  const keyset = { scope: scopeOf(JSON.stringify(list), customerId, all([]), []), columns };
  const rows = await read(positionBefore(keyset, paginate));
  return { rows, nextCursor: cursorAfter(keyset, paginate, rows, positionOf) };
}
