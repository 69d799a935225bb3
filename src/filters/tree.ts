/** In canonical form: text folded, instants in UTC with milliseconds, UUIDs in lower case. */
export type FilterValue = string | number | boolean;

/**
 * A tree of conditions, for SQL or in memory. A condition on a missing value is false, so its `not` is true; only
 * `empty` is true for it.
 */
export type Filter =
  /** Also true if `of` is empty. */
  | { kind: 'all'; of: Filter[] }
  /** False if `of` is empty. */
  | { kind: 'any'; of: Filter[] }
  | { kind: 'not'; of: Filter }
  | { kind: 'in'; field: string; values: FilterValue[] }
  /** Folded texts are compared by code point. */
  | { kind: 'compare'; field: string; operator: Comparison; value: FilterValue }
  /** Anywhere, at its start or at its end. Case and accents are ignored. */
  | { kind: 'contains'; field: string; text: string; at: 'anywhere' | 'start' | 'end' }
  | { kind: 'empty'; field: string }
  /**
   * A stored member of one of `lists`, or of any list. In `byHandOnly`, memberships by rule do not count; in `deleted`,
   * none does.
   */
  | { kind: 'member'; lists: string[] | 'any'; byHandOnly: string[]; deleted?: string[] }
  /** A copied member that no job has stored as a normal member yet. */
  | { kind: 'copied'; customerId: string; lists: string[] }
  /** The contact's company has changed or was deleted, and a worker has perhaps not updated the contact yet. */
  | { kind: 'settling'; customerId: string }
  /** Every word occurs in at least one of the texts that `search` covers. */
  | { kind: 'search'; field: string; words: Words };

/** A search without words matches nobody, so it is `any([])`. */
export type Words = [string, ...string[]];

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

/**
 * Returns the id if the filter selects the members of exactly one list. Cheap to count, because each list stores its
 * number of members.
 */
export function singleList(filter: Filter): string | undefined {
  if (filter.kind !== 'in' || filter.field !== 'list_id' || filter.values.length !== 1) return undefined;
  return String(filter.values[0]);
}

export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  if (filter.kind === 'member' || filter.kind === 'copied') return new Set(['list_id']);
  return new Set([filter.kind === 'settling' ? 'company_id' : filter.field]);
}
