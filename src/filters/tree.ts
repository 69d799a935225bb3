/**
 * A value in a filter condition, in canonical form: text in lower case without accents, instants in UTC with
 * milliseconds, UUIDs in lower case.
 */
export type FilterValue = string | number | boolean;

/**
 * A filter as a tree of conditions. It can be converted to SQL, or tested in memory. A condition on a missing value is
 * false, so its `not` is true; only `empty` is true for a missing value.
 */
export type Filter =
  /** All filters in `of` are true. Also true if `of` is empty. */
  | { kind: 'all'; of: Filter[] }
  /** At least one filter in `of` is true. False if `of` is empty. */
  | { kind: 'any'; of: Filter[] }
  | { kind: 'not'; of: Filter }
  /** The field's value equals one of `values`. */
  | { kind: 'in'; field: string; values: FilterValue[] }
  /**
   * The field's value is less or greater than `value`. Texts are compared by code point, in lower case without accents.
   */
  | { kind: 'compare'; field: string; operator: Comparison; value: FilterValue }
  /** The field's value contains `text`: anywhere, at its start or at its end. Case and accents are ignored. */
  | { kind: 'contains'; field: string; text: string; at: 'anywhere' | 'start' | 'end' }
  /** The field is null, absent or `""`. */
  | { kind: 'empty'; field: string }
  /**
   * The contact is a stored member of one of `lists`, or of any list. In the lists `byHandOnly`, memberships by rule do
   * not count; in the lists `deleted`, no membership does.
   */
  | { kind: 'member'; lists: string[] | 'any'; byHandOnly: string[]; deleted?: string[] }
  /**
   * The contact is a copied member of one of `lists`, and a background job has not yet stored it as a normal member.
   */
  | { kind: 'copied'; customerId: string; lists: string[] }
  /** The contact's company has changed or was deleted, and a worker has perhaps not updated the contact yet. */
  | { kind: 'settling'; customerId: string }
  /** Every word in `words` occurs in at least one of the texts that the filter `search` covers. */
  | { kind: 'search'; field: string; words: Words };

/** The words of a search. A search without words is no condition: it matches nobody, so it is `any([])`. */
export type Words = [string, ...string[]];

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

/**
 * Returns the list's id if the filter selects the members of exactly one list, otherwise undefined. Such a filter is
 * cheap to count, because each list stores its number of members.
 */
export function singleList(filter: Filter): string | undefined {
  if (filter.kind !== 'in' || filter.field !== 'list_id' || filter.values.length !== 1) return undefined;
  return String(filter.values[0]);
}

/** Returns the names of all fields that a filter uses. The names are the same as in requests. */
export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  if (filter.kind === 'member' || filter.kind === 'copied') return new Set(['list_id']);
  return new Set([filter.kind === 'settling' ? 'company_id' : filter.field]);
}
