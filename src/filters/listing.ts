import { fold } from '../fold.ts';
import type { Column, Source } from './columns.ts';
import { encodeCursor, readPosition, scopeOf, type KeyValue, type Position } from './cursor.ts';
import { parseOrder, type Order } from './order.ts';
import { parseFilters } from './parse.ts';
import type { Rule } from '../schemas/lists.ts';
import { defaultLimit } from '../schemas/wire.ts';
import type { Filter } from './tree.ts';

/** The members of a request that say which records, in which order, and which page of them. */
export interface ListRequest {
  filters?: unknown;
  order_by?: unknown;
  paginate?: { page?: number; limit?: number; cursor?: string };
}

/** What a request asks for, understood: one page of one customer's records of one kind. */
export interface Listing {
  source: Source;
  customerId: string;
  filter: Filter;
  order: Order;
  limit: number;
  /** Records to skip: of a page by number. */
  offset: number;
  /** The record that the page before ended with: of a page by cursor. */
  after: Position | undefined;
  /** What cursors of this list are bound to. */
  scope: string;
  /** The only list that the filter asks for, if its memberships by rule are not to be believed for contacts that are settling. */
  changing?: { id: string; rules: Rule[] };
}

/**
 * Understands a request for a list.
 * @throws DomainError `validation_failed` for the first of `filters`, `order_by` and `paginate` that is at fault
 */
export function readListing(source: Source, customerId: string, request: ListRequest): Listing {
  const filter = parseFilters(source.fields, request.filters);
  const order = parseOrder(source.fields, request.order_by);
  const scope = scopeOf(source.fields.noun, customerId, filter, order);
  const { paginate = {} } = request;
  const { page = 1, limit = defaultLimit } = paginate;
  const after = readPosition(scope, columnsOf(source, order), paginate, 'these filters and this order');
  return { source, customerId, filter, order, limit, offset: limit * (page - 1), after, scope };
}

export const columnsOf = (source: Source, order: Order): Column[] => order.map(({ field }) => source.columns[field]!);

/**
 * The cursor that continues after a page, for the header `x-next-cursor`; undefined when the page is not full.
 * @param rows the page as it is answered
 */
export function nextCursor(listing: Listing, rows: readonly object[]): string | undefined {
  const last = rows.at(-1) as Record<string, unknown> | undefined;
  if (!last || rows.length < listing.limit) return undefined;
  const values = listing.order.map(({ field }) => keyValue(listing.source, last, field));
  return encodeCursor(listing.scope, { id: last['id'] as string, values });
}

/** What a record was sorted by, from what it shows. */
function keyValue({ columns }: Source, record: Record<string, unknown>, field: string): KeyValue {
  const path = field === 'company_id' ? ['company', 'id'] : field.split('.');
  const shown = path.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], record) as
    string | number | null;
  return columns[field]!.type === 'text' && shown !== null ? fold(String(shown)) : shown;
}
