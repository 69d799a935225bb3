import { defaultLimit } from '../schemas/base/wire.ts';
import { fold } from '../text/fold.ts';
import type { GivenFilters, GivenOrder } from '../schemas/filters.ts';
import type { Column, Source } from './columns.ts';
import { encodeCursor, readPosition, scopeOf, type KeyValue, type Position } from './cursor.ts';
import { parseOrder, type Order } from './order.ts';
import { parseFilters } from './parse.ts';
import type { Filter } from './tree.ts';

export interface ListRequest {
  filters?: GivenFilters;
  order_by?: GivenOrder;
  paginate?: { page?: number; limit?: number; cursor?: string };
}

export interface RecordQuery {
  source: Source;
  customerId: string;
  filter: Filter;
  order: Order;
  limit: number;
  /** Records to skip if the request has a page number, else 0. */
  offset: number;
  after: Position | undefined;
  /** Requests accept only cursors with this hash (see `scopeOf`). */
  scope: string;
}

/**
 * @param request one that is valid by its schema
 * @throws DomainError `validation_failed` if the cursor is not one of these filters and this order
 */
export function parseRecordQuery(source: Source, customerId: string, request: ListRequest): RecordQuery {
  const filter = parseFilters(source.fields, request.filters);
  const order = parseOrder(request.order_by);
  const scope = scopeOf(source.fields.noun, customerId, filter, order);
  const { paginate = {} } = request;
  const { page = 1, limit = defaultLimit } = paginate;
  const after = readPosition(scope, columnsOf(source, order), paginate, 'these filters and this order');
  return { source, customerId, filter, order, limit, offset: limit * (page - 1), after, scope };
}

export const columnsOf = (source: Source, order: Order): Column[] => order.map(({ field }) => source.columns[field]!);

/**
 * Returns the cursor for the header `x-next-cursor`. Undefined if the page is not full, because no page follows.
 * @param rows as the response shows them
 */
export function nextCursor(query: RecordQuery, rows: readonly object[]): string | undefined {
  const last = rows.at(-1);
  if (!last || rows.length < query.limit) return undefined;
  return encodeCursor(query.scope, positionOf(query, last));
}

/** @param record as the response shows it */
export const positionOf = ({ source, order }: RecordQuery, record: object): Position => ({
  id: (record as { id: string }).id,
  values: order.map(({ field }) => keyValue(source, record as Record<string, unknown>, field)),
});

/**
 * Returns a field's value for a cursor, a text folded.
 * @param record as the response shows it
 */
function keyValue({ columns, alias }: Source, record: Record<string, unknown>, field: string): KeyValue {
  const path = alias === 'c' && field === 'company_id' ? ['company', 'id'] : field.split('.');
  const shown = path.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], record) as
    string | number | null;
  return columns[field]!.type === 'text' && shown !== null ? fold(String(shown)) : shown;
}
