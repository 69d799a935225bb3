import { createHash } from 'node:crypto';
import { isStorable } from '../code-points.ts';
import { validationFailed } from '../errors.ts';
import { fold } from '../fold.ts';
import { formats, isInstant } from '../schemas/formats.ts';
import type { Column } from './columns.ts';
import type { Filter } from './tree.ts';
import type { Order } from './order.ts';
import { canonicalInstant } from './values.ts';

/** A sort key's value of the row that a page ended with; `ofRow` is a long text left out, to be looked up by the row's id. */
export type KeyValue = string | number | null | typeof ofRow;
export const ofRow = true;

/** Where a page ended. */
export interface Position {
  id: string;
  /** One for each key of the order. */
  values: KeyValue[];
}

/** Text longer than this is not carried in a cursor, so that a cursor fits into a header. */
const carriedText = 255;

/** Three texts of the longest, each character as three bytes, and the rest; as base64. */
const longest = 4096;

/** A name for what is listed and how, so that a cursor made for one list is refused by another. */
export function scopeOf(noun: string, customerId: string, filter: Filter, order: Order): string {
  const hash = createHash('sha256').update(JSON.stringify([noun, customerId, canonical(filter), order]));
  return hash.digest('base64url').slice(0, 16);
}

/** The same text for filters that differ only in the order in which they were written. */
function canonical(filter: Filter): string {
  if (filter.kind === 'all' || filter.kind === 'any')
    return JSON.stringify([filter.kind, filter.of.map(canonical).sort()]);
  if (filter.kind === 'not') return JSON.stringify([filter.kind, canonical(filter.of)]);
  if (filter.kind === 'in')
    return JSON.stringify({ ...filter, values: filter.values.map((value) => JSON.stringify(value)).sort() });
  return JSON.stringify(filter);
}

/** The cursor of a position. It holds nothing that the page did not show, and means nothing outside its scope. */
export function encodeCursor(scope: string, { id, values }: Position): string {
  const carried = values.map((value) => (typeof value === 'string' && value.length > carriedText ? ofRow : value));
  return Buffer.from(JSON.stringify([scope, id, carried])).toString('base64url');
}

/** A fault of a request's cursor. */
export const cursorFault = (message: string, path = '/paginate/cursor') => validationFailed([{ path, message }]);

/**
 * Reads the position after which a request continues; undefined when it has no cursor.
 * @param list names, in the error message, what the cursor must belong to
 * @param path where the cursor stands in the body
 * @throws DomainError `validation_failed` when the cursor stands together with a page, or belongs to another list
 */
export function readPosition(
  scope: string,
  columns: Column[],
  { page, cursor }: { page?: number; cursor?: string },
  list: string,
  path?: string,
): Position | undefined {
  if (cursor === undefined) return undefined;
  if (page !== undefined) throw cursorFault('cannot stand together with page', path);
  const position = decodeCursor(scope, columns, cursor);
  if (!position) throw cursorFault(`is not a cursor that was given with ${list}`, path);
  return position;
}

/** The position that a cursor stands for; undefined when it is none that was made for this scope and these keys. */
function decodeCursor(scope: string, columns: Column[], cursor: string): Position | undefined {
  const parts = cursor.length > longest ? undefined : parse(cursor);
  if (!Array.isArray(parts) || parts.length !== 3 || parts[0] !== scope) return undefined;
  const [, id, values] = parts as [unknown, unknown, unknown];
  if (!isUuid(id) || !Array.isArray(values) || values.length !== columns.length) return undefined;
  if (!columns.every((column, i) => isValueOf(column, values[i]))) return undefined;
  const position = { id, values: values as KeyValue[] };
  return encodeCursor(scope, position) === cursor ? position : undefined;
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}

function isValueOf(column: Column, value: unknown): value is KeyValue {
  if (value === null) return !column.required && column.shownAs === undefined;
  if (column.type === 'integer') return Number.isInteger(value) && value === ((value as number) | 0);
  if (column.type === 'text' && value === ofRow) return true;
  if (typeof value !== 'string') return false;
  if (column.type === 'instant') return isInstant(value) && canonicalInstant(value) === value;
  if (column.type === 'uuid') return isUuid(value);
  return isStorable(value) && fold(value) === value;
}

const isUuid = (value: unknown): value is string =>
  typeof value === 'string' && formats['uuid']!(value) && value === value.toLowerCase();
