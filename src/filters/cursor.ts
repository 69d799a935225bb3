import { createHash } from 'node:crypto';
import { validationFailed } from '../errors.ts';
import { isInstant } from '../schemas/formats.ts';
import { isStorable, fold } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import { type Column, type Order, type Filter, canonicalInstant } from './columns.ts';

export type KeyValue = string | number | null | LongText;

/**
 * Replaces a text that is too long for a cursor. Contains only the text's hash; the text itself is read from its row
 * again.
 */
interface LongText {
  hash: string;
}

export const isLongText = (value: unknown): value is LongText =>
  typeof value === 'object' && value !== null && 'hash' in value && Object.keys(value).length === 1;

const hashLongText = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 22);

/**
 * Returns a cursor's position with the texts of its row instead of their hashes.
 * @param texts the texts of the row, one for each sort key; undefined if there is no such row
 * @throws DomainError `validation_failed` if the row was deleted, or its texts have changed
 */
export function withLongTexts({ id, values }: Position, texts: readonly unknown[] | undefined): WholePosition {
  const whole = values.map((value, i) => {
    if (!isLongText(value)) return value;
    const text = texts?.[i];
    if (typeof text === 'string' && hashLongText(text) === value.hash) return text;
    throw cursorFault('points to a record that was deleted or changed; start again from the first page');
  });
  return { id, values: whole };
}

export interface Position {
  id: string;
  values: KeyValue[];
}

interface WholePosition extends Position {
  values: Exclude<KeyValue, LongText>[];
}

/** Maximum length of a text in a cursor (UTF-16 units), because a cursor must fit into an HTTP header. */
const carriedText = 255;

/** Maximum length of a cursor in a request (base64 characters). Three texts of maximum length fit. */
const maxLength = 4096;

/**
 * Returns a hash of the customer, the kind of records, the filter and the order. A request accepts only cursors with
 * its own hash.
 */
export function scopeOf(noun: string, customerId: string, filter: Filter, order: Order): string {
  const hash = createHash('sha256').update(JSON.stringify([noun, customerId, canonical(filter), order]));
  return hash.digest('base64url').slice(0, 16);
}

function canonical(filter: Filter): string {
  if (filter.kind === 'all' || filter.kind === 'any')
    return JSON.stringify([filter.kind, filter.of.map(canonical).sort()]);
  if (filter.kind === 'not') return JSON.stringify([filter.kind, canonical(filter.of)]);
  if (filter.kind === 'in')
    return JSON.stringify({ ...filter, values: filter.values.map((value) => JSON.stringify(value)).sort() });
  return JSON.stringify(filter);
}

export function encodeCursor(scope: string, { id, values }: Position): string {
  // The cursor contains only values that the page showed.
  const carried = values.map((value) =>
    typeof value === 'string' && value.length > carriedText ? { hash: hashLongText(value) } : value,
  );
  return Buffer.from(JSON.stringify([scope, id, carried])).toString('base64url');
}

export const cursorFault = (message: string, path = '/paginate/cursor') => validationFailed([{ path, message }]);

/**
 * Returns the position of the last row of the previous page, decoded from the request's cursor. Undefined without a
 * cursor.
 * @param list describes the request in the error message, e.g. "these filters and this order"
 * @param path JSON pointer to the cursor in the request body
 * @throws DomainError `validation_failed` if there is also a page number, or the cursor is from another query
 */
export function readPosition(
  scope: string,
  columns: Column[],
  { page, cursor }: { page?: number; cursor?: string | undefined },
  list: string,
  path?: string,
): Position | undefined {
  if (cursor === undefined) return undefined;
  if (page !== undefined) throw cursorFault('cannot be combined with page', path);
  const position = decodeCursor(scope, columns, cursor);
  if (!position) throw cursorFault(`is not a cursor from a response to ${list}`, path);
  return position;
}

function decodeCursor(scope: string, columns: Column[], cursor: string): Position | undefined {
  const parts = cursor.length > maxLength ? undefined : parse(cursor);
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
  if (column.type === 'number') return Number.isFinite(value);
  if (isLongText(value)) return ['text', 'exact', 'domain'].includes(column.type) && isHash(value.hash);
  if (typeof value !== 'string') return false;
  if (column.type === 'instant') return isInstant(value) && canonicalInstant(value) === value;
  if (column.type === 'uuid') return isUuid(value);
  return isStorable(value) && (['exact', 'domain'].includes(column.type) || fold(value) === value);
}

const isUuid = (value: unknown): value is string => typeof value === 'string' && canonicalId(value) === value;

const isHash = (value: unknown): boolean => typeof value === 'string' && /^[\w-]{22}$/.test(value);
