import { maxFaults, validationFailed, type Fault } from '../errors.ts';
import { filterLimits, orderable, type FilterFields, type GivenOrder } from '../schemas/filters.ts';
import { escapePointer } from '../text/json-pointer.ts';
import { isObject, quote } from './parse.ts';

type Direction = 'ASC' | 'DESC';

interface OrderKey {
  field: string;
  direction: Direction;
}

/** Most important first. Ties are sorted by id, descending. */
export type Order = readonly OrderKey[];

export const defaultOrder: Order = [{ field: 'created_at', direction: 'DESC' }];

/**
 * Parses `order_by`: `{field: direction}` or `[{field, direction}]`.
 * @throws DomainError `validation_failed` that lists every fault
 */
export function parseOrder(fields: FilterFields, input: unknown, pointer = '/order_by'): Order {
  const { order, faults } = readOrder(fields, input, pointer);
  if (faults.length > 0) throw validationFailed(faults);
  return order;
}

/** Like `parseOrder`, but returns the faults. Do not use the keys if there are any. */
export function readOrder(
  fields: FilterFields,
  input: unknown,
  pointer = '/order_by',
): { order: Order; faults: Fault[] } {
  if (input === undefined) return { order: defaultOrder, faults: [] };
  const faults: Fault[] = [];
  if (Array.isArray(input)) checkElements(fields, input, pointer, faults);
  else if (isObject(input)) checkMembers(fields, input, pointer, faults);
  else faults.push({ path: pointer, message: 'must be {field: "ASC" | "DESC"} or an array of {field, direction}' });
  return { order: faults.length > 0 ? defaultOrder : withoutIdle(keysOf(input as GivenOrder)), faults };
}

const keysOf = (input: GivenOrder): OrderKey[] =>
  (Array.isArray(input)
    ? input
    : Object.entries(input).map(([field, direction]) => ({ field, direction }))) as OrderKey[];

const isFull = (faults: Fault[]): boolean => faults.length > maxFaults;

function checkMembers(fields: FilterFields, input: Record<string, unknown>, pointer: string, faults: Fault[]): void {
  const names = Object.keys(input);
  checkCount(names.length, pointer, faults);
  for (const field of names) {
    if (isFull(faults)) return;
    const path = `${pointer}/${escapePointer(field)}`;
    checkKey(fields, { field, direction: input[field] }, { field: path, direction: path }, faults);
  }
}

function checkElements(fields: FilterFields, input: unknown[], pointer: string, faults: Fault[]): void {
  checkCount(input.length, pointer, faults);
  for (const [i, element] of input.entries()) {
    if (isFull(faults)) return;
    const path = `${pointer}/${i}`;
    if (isObject(element)) checkNames(element, path, faults);
    else faults.push({ path, message: 'must be an object {field, direction}' });
  }
  for (const [i, element] of input.entries()) {
    if (isFull(faults)) return;
    const path = `${pointer}/${i}`;
    const paths = { field: `${path}/field`, direction: `${path}/direction` };
    if (isObject(element)) checkKey(fields, element, paths, faults);
  }
}

function checkCount(count: number, pointer: string, faults: Fault[]): void {
  if (count < 1 || count > filterLimits.orderKeys)
    faults.push({ path: pointer, message: `must have 1 to ${filterLimits.orderKeys} keys, has ${count}` });
}

function checkNames(element: object, path: string, faults: Fault[]): void {
  for (const name of Object.keys(element)) {
    if (isFull(faults)) return;
    if (name === 'field' || name === 'direction') continue;
    const message = `unknown property ${quote(name)}; allowed are field, direction`;
    faults.push({ path: `${path}/${escapePointer(name)}`, message });
  }
}

interface GivenKey {
  field?: unknown;
  direction?: unknown;
}

function checkKey(
  fields: FilterFields,
  { field, direction }: GivenKey,
  paths: { field: string; direction: string },
  faults: Fault[],
): void {
  const allowed = orderable(fields);
  if (typeof field !== 'string') faults.push({ path: paths.field, message: 'must be the name of a field' });
  else if (!allowed.includes(field))
    faults.push({
      path: paths.field,
      message: `records cannot be ordered by ${quote(field)}; allowed are ${allowed.join(', ')}`,
    });
  if (direction !== 'ASC' && direction !== 'DESC')
    faults.push({ path: paths.direction, message: 'must be "ASC" or "DESC"' });
}

/** Removes keys without effect: a repeated field, and all keys after the id, because ids are unique. */
function withoutIdle(keys: OrderKey[]): OrderKey[] {
  const kept = new Map<string, OrderKey>();
  for (const { field, direction } of keys) {
    if (!kept.has('id') && !kept.has(field)) kept.set(field, { field, direction });
  }
  return [...kept.values()];
}
