import { validationFailed, type Fault } from '../errors.ts';
import { filterLimits, orderable, type FilterFields } from '../schemas/filters.ts';
import { escapePointer, quote } from './parse.ts';

export type Direction = 'ASC' | 'DESC';

/** One key of an order. */
export interface OrderKey {
  field: string;
  direction: Direction;
}

/** Most significant key first. The record's id, descending, always decides what these leave open. */
export type Order = readonly OrderKey[];

/** Newest first. */
export const defaultOrder: Order = [{ field: 'created_at', direction: 'DESC' }];

/**
 * Reads the `order_by` member of a request: `{field: direction}` or `[{field, direction}]`.
 * @throws DomainError `validation_failed` naming every fault
 */
export function parseOrder(fields: FilterFields, given: unknown, pointer = '/order_by'): Order {
  const { order, faults } = readOrder(fields, given, pointer);
  if (faults.length > 0) throw validationFailed(faults);
  return order;
}

/** The same without throwing; the order means nothing when there are faults. */
export function readOrder(
  fields: FilterFields,
  given: unknown,
  pointer = '/order_by',
): { order: Order; faults: Fault[] } {
  if (given === undefined) return { order: defaultOrder, faults: [] };
  const faults: Fault[] = [];
  const keys = Array.isArray(given) ? readElements(given, pointer, faults) : readMembers(given, pointer, faults);
  if (faults.length === 0 && (keys.length < 1 || keys.length > filterLimits.orderKeys))
    faults.push({ path: pointer, message: `must have 1 to ${filterLimits.orderKeys} keys, has ${keys.length}` });
  for (const key of keys.slice(0, filterLimits.orderKeys)) checkKey(fields, key, faults);
  return { order: withoutIdle(keys), faults };
}

/** A key as it was given, and where. */
interface GivenKey {
  field: unknown;
  direction: unknown;
  fieldPath: string;
  directionPath: string;
}

function readMembers(given: unknown, pointer: string, faults: Fault[]): GivenKey[] {
  if (isObject(given))
    return Object.entries(given).map(([field, direction]) => {
      const path = `${pointer}/${escapePointer(field)}`;
      return { field, direction, fieldPath: path, directionPath: path };
    });
  faults.push({ path: pointer, message: 'must be {field: "ASC" | "DESC"} or an array of {field, direction}' });
  return [];
}

function readElements(given: unknown[], pointer: string, faults: Fault[]): GivenKey[] {
  return given.slice(0, filterLimits.orderKeys + 1).flatMap((element, i) => {
    const path = `${pointer}/${i}`;
    if (!isObject(element)) {
      faults.push({ path, message: 'must be an object {field, direction}' });
      return [];
    }
    for (const name of Object.keys(element).slice(0, filterLimits.conditions))
      if (name !== 'field' && name !== 'direction')
        faults.push({
          path: `${path}/${escapePointer(name)}`,
          message: `unknown property ${quote(name)}; allowed are field, direction`,
        });
    return [
      {
        field: element['field'],
        direction: element['direction'],
        fieldPath: `${path}/field`,
        directionPath: `${path}/direction`,
      },
    ];
  });
}

function checkKey(
  fields: FilterFields,
  { field, direction, fieldPath, directionPath }: GivenKey,
  faults: Fault[],
): void {
  const allowed = orderable(fields);
  if (typeof field !== 'string') faults.push({ path: fieldPath, message: 'must be the name of a field' });
  else if (!allowed.includes(field))
    faults.push({
      path: fieldPath,
      message: `records cannot be ordered by ${quote(field)}; allowed are ${allowed.join(', ')}`,
    });
  if (direction !== 'ASC' && direction !== 'DESC')
    faults.push({ path: directionPath, message: 'must be "ASC" or "DESC"' });
}

/** Leaves out the keys that cannot decide anything: a field's second mention, and all after the id. */
function withoutIdle(keys: GivenKey[]): OrderKey[] {
  const kept = new Map<string, OrderKey>();
  for (const { field, direction } of keys as unknown as OrderKey[]) {
    if (!kept.has('id') && !kept.has(field)) kept.set(field, { field, direction });
  }
  return [...kept.values()];
}

const isObject = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given);
