import type { GivenFilters, Operator } from '../../src/schemas/filters.ts';
import { domains, folded, searches } from './pools.ts';

/** A record as responses show it. */
export type WireRecord = Record<string, unknown> & { id: string };

/** Data of the records that responses do not show. */
export interface World {
  /** Ids of the lists of each contact. */
  lists: ReadonlyMap<string, readonly string[]>;
  /** Returns the values that `search` looks into, folded by hand. */
  searched: (record: WireRecord) => readonly string[];
}

const uuidFields = new Set(['id', 'assigned_to', 'company_id', 'list_id']);
const instantFields = new Set(['last_verified', 'crm_synced_at', 'removal_requested_at', 'created_at', 'updated_at']);

/**
 * Returns true if a record passes a request's filters. This is the specification in JavaScript, applied
 * to the record as responses show it.
 */
export function passes(world: World, record: WireRecord, filters: GivenFilters): boolean {
  return Object.entries(filters).every(([name, given]) => {
    if (name === '_or') return (given as GivenFilters[]).some((one) => passes(world, record, one));
    if (name === 'search') return finds(world, record, given as string);
    const found = name === 'list_id' ? (world.lists.get(record.id) ?? []) : [valueOf(record, name)];
    const comparable = found.map((value) => toComparable(name, value));
    return conditionsOf(given).every(([operator, operand]) => holds(name, found, comparable, operator, operand));
  });
}

/** Returns the value that a record shows for a field. */
export function valueOf(record: WireRecord, name: string): unknown {
  if (name === 'company_id') return (record['company'] as { id: string | null }).id;
  if (name.startsWith('custom_fields.'))
    return (record['custom_fields'] as Record<string, unknown>)[name.slice(14)] ?? null;
  const [first, second] = name.split('.') as [string, string?];
  return second === undefined ? record[first] : (record[first] as Record<string, unknown>)[second];
}

/** Returns a value in comparable form: text as its folded form, instants as times. */
export function toComparable(name: string, value: unknown): unknown {
  if (value === null || typeof value !== 'string') return value;
  if (name === 'external_id') return value;
  if (name === 'domain') return domains.get(value) ?? value.toLowerCase();
  if (uuidFields.has(name)) return value.toLowerCase();
  if (instantFields.has(name)) return Math.floor(Date.parse(value.toUpperCase()));
  const known = folded.get(value);
  if (known === undefined && !/^[a-z0-9 .@_+-]*$/.test(value))
    throw new Error(`Nobody wrote down what ${value} folds to`);
  return known ?? value;
}

/** Returns a number below zero if `a` comes before `b`. Neither may be null. */
export const compareValues = (a: unknown, b: unknown): number =>
  typeof a === 'string' ? Buffer.compare(Buffer.from(a), Buffer.from(b as string)) : (a as number) - (b as number);

const conditionsOf = (given: unknown): [string, unknown][] => {
  if (Array.isArray(given)) return [['in', given]];
  return given !== null && typeof given === 'object' ? Object.entries(given) : [['eq', given]];
};

/** Returns true if the condition holds for one of the found values. A contact can be in several lists or in none. */
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
  const tests: Record<Operator, () => boolean> = {
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
  return tests[operator as Operator]();
}

function finds(world: World, record: WireRecord, search: string): boolean {
  const words = searches.find(([given]) => given === search)![1];
  const texts = world.searched(record);
  return (
    words.length > 0 && words.every((word) => spellings(word).some((one) => texts.some((text) => text.includes(one))))
  );
}

/** `mueller` finds Müller, which is folded to `muller`. */
const spellings = (word: string): string[] => (word.length > 3 ? [word, word.replaceAll(/([aou])e/g, '$1')] : [word]);

/** Returns a comparator for the sort keys of a request. The id, descending, breaks ties. */
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
