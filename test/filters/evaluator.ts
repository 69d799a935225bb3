import type { GivenFilters } from '../../src/schemas/filters.ts';
import { folded, searches } from './pools.ts';

/** A record as it is answered. */
export type WireRecord = Record<string, unknown> & { id: string };

/** What records are besides what they show. */
export interface World {
  /** The lists that each contact is in. */
  lists: ReadonlyMap<string, readonly string[]>;
  /** The values of a record, folded by hand, that `search` looks into. */
  searched: (record: WireRecord) => readonly string[];
}

const uuidFields = new Set(['id', 'assigned_to', 'company_id', 'list_id']);
const instantFields = new Set(['last_verified', 'crm_synced_at', 'created_at', 'updated_at']);

/** Whether a record passes a request's filters: the decisions' text in JavaScript, over what the record shows. */
export function passes(world: World, record: WireRecord, filters: GivenFilters): boolean {
  return Object.entries(filters).every(([name, given]) => {
    if (name === '_or') return (given as GivenFilters[]).some((one) => passes(world, record, one));
    if (name === 'search') return finds(world, record, given as string);
    const found = name === 'list_id' ? (world.lists.get(record.id) ?? []) : [valueOf(record, name)];
    const comparable = found.map((value) => toComparable(name, value));
    return conditionsOf(given).every(([operator, operand]) => holds(name, found, comparable, operator, operand));
  });
}

/** What a record shows at a field's name. */
export function valueOf(record: WireRecord, name: string): unknown {
  if (name === 'company_id') return (record['company'] as { id: string | null }).id;
  if (name.startsWith('custom_fields.'))
    return (record['custom_fields'] as Record<string, unknown>)[name.slice(14)] ?? null;
  const [first, second] = name.split('.') as [string, string?];
  return second === undefined ? record[first] : (record[first] as Record<string, unknown>)[second];
}

/** A value as it is compared: text by the bytes of its folded form, instants by time. */
export function toComparable(name: string, value: unknown): unknown {
  if (value === null || typeof value !== 'string') return value;
  if (uuidFields.has(name)) return value.toLowerCase();
  if (instantFields.has(name)) return Math.floor(Date.parse(value.toUpperCase()));
  const known = folded.get(value);
  if (known === undefined && !/^[a-z0-9 .@_-]*$/.test(value))
    throw new Error(`Nobody wrote down what ${value} folds to`);
  return known ?? value;
}

/** Below zero when `a` comes first. Null is not compared. */
export const compareValues = (a: unknown, b: unknown): number =>
  typeof a === 'string' ? Buffer.compare(Buffer.from(a), Buffer.from(b as string)) : (a as number) - (b as number);

const conditionsOf = (given: unknown): [string, unknown][] => {
  if (Array.isArray(given)) return [['in', given]];
  return given !== null && typeof given === 'object' ? Object.entries(given) : [['eq', given]];
};

/** A contact is in several lists, or in none: a condition holds when it does for one of them. */
function holds(
  name: string,
  found: readonly unknown[],
  comparable: readonly unknown[],
  operator: string,
  operand: unknown,
): boolean {
  const isEmpty = found.every((value) => value === null || value === undefined || value === '');
  const some = (test: (value: never) => boolean) => comparable.some((value) => value !== null && test(value as never));
  const like = (other: unknown) => toComparable(name, other) as never;
  const equals = (other: unknown) => (other === null ? isEmpty : some((value) => value === like(other)));
  const compares = (other: unknown, test: (order: number) => boolean) =>
    some((value) => typeof value === typeof like(other) && test(compareValues(value, like(other))));
  const isText = (test: (value: string, needle: string) => boolean) =>
    some((value) => typeof value === 'string' && test(value, like(operand)));
  const tests: Record<string, () => boolean> = {
    eq: () => equals(operand),
    ne: () => !equals(operand),
    in: () => (operand as unknown[]).some(equals),
    not_in: () => !(operand as unknown[]).some(equals),
    is_null: () => isEmpty === operand,
    gt: () => compares(operand, (order) => order > 0),
    gte: () => compares(operand, (order) => order >= 0),
    lt: () => compares(operand, (order) => order < 0),
    lte: () => compares(operand, (order) => order <= 0),
    between: () => {
      const [low, high] = operand as [unknown, unknown];
      return compares(low, (order) => order >= 0) && compares(high, (order) => order <= 0);
    },
    contains: () => isText((value, needle) => value.includes(needle)),
    not_contains: () => !isText((value, needle) => value.includes(needle)),
    starts_with: () => isText((value, needle) => value.startsWith(needle)),
    ends_with: () => isText((value, needle) => value.endsWith(needle)),
  };
  return tests[operator]!();
}

function finds(world: World, record: WireRecord, search: string): boolean {
  const words = searches.find(([given]) => given === search)![1];
  return words.every((word) => world.searched(record).some((text) => text.includes(word)));
}

/** The order that a request's keys make, ended by the id, descending. */
export function comparator(
  keys: readonly { field: string; direction: string }[],
): (a: WireRecord, b: WireRecord) => number {
  return (a, b) => {
    for (const { field, direction } of keys) {
      const [x, y] = [a, b].map((record) => toComparable(field, valueOf(record, field)));
      if (x === null && y === null) continue;
      if (x === null || y === null) return x === null ? 1 : -1;
      const order = compareValues(x, y);
      if (order !== 0) return direction === 'ASC' ? order : -order;
    }
    return a.id < b.id ? 1 : -1;
  };
}
