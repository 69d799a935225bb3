/** In canonical form: text folded, instants in UTC with milliseconds, UUIDs in lower case. */
export type FilterValue = string | number | boolean;

/**
 * A tree of conditions. A condition on a missing value is false, so its `not` is true; only
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
  /** A contact that was added by hand to one of `lists`, which exist, or to any list. */
  | { kind: 'member'; lists: string[] | 'any' }
  /** Every word occurs in at least one of the texts that `search` covers. */
  | { kind: 'search'; field: string; words: Words };

/** A search without words matches nobody, so it is `any([])`. */
export type Words = [string, ...string[]];

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

/** Returns the id if the filter selects the contacts that were added by hand to exactly one list. */
export const singleList = (filter: Filter): string | undefined =>
  filter.kind === 'member' && filter.lists !== 'any' && filter.lists.length === 1 ? filter.lists[0] : undefined;

export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  return new Set([filter.kind === 'member' ? 'list_id' : filter.field]);
}
