/**
 * A value that a condition compares with, in canonical form: text folded (see `fold`), instants in UTC with
 * milliseconds, UUIDs in lower case.
 */
export type FilterValue = string | number | boolean;

/**
 * A filter as a tree of conditions. It does not depend on the language of the request or on the engine that runs it.
 * Every operator of a request becomes one of these nodes or a combination of them: `ne` is `not` of `in`, `between` is
 * two `compare`.
 *
 * A condition on a missing value is false, so its `not` is true. The exception is `empty`.
 */
export type Filter =
  /** Every filter of `of` holds. True if `of` is empty. */
  | { kind: 'all'; of: Filter[] }
  /** At least one filter of `of` holds. False if `of` is empty. */
  | { kind: 'any'; of: Filter[] }
  | { kind: 'not'; of: Filter }
  /** The field's value equals one of `values`. */
  | { kind: 'in'; field: string; values: FilterValue[] }
  /** The field's value is less or greater than `value`. Text is compared in folded form, by code point. */
  | { kind: 'compare'; field: string; operator: Comparison; value: FilterValue }
  /** The field's folded value contains `text`, anywhere, at its start or at its end. */
  | { kind: 'contains'; field: string; text: string; at: 'anywhere' | 'start' | 'end' }
  /** The field is null, absent or `""`. */
  | { kind: 'empty'; field: string }
  /**
   * The contact is a member of one of `lists`, or of any list. Memberships by rule in the lists of `unsettled` do
   * not count, because they are not stored yet; memberships by hand do count. Memberships by rule in the lists of
   * `changing` do not count while the contact is `settling`. Memberships in the lists of `deleted` do not count.
   */
  | { kind: 'member'; lists: string[] | 'any'; unsettled: string[]; changing?: Changing; deleted?: string[] }
  /** The contact was copied to one of the lists, and its membership is not stored yet. */
  | { kind: 'copied'; customerId: string; lists: string[] }
  /** The contact's company was changed or deleted, and the contact's list memberships may not be updated yet. */
  | { kind: 'settling'; customerId: string }
  /** Every word of `words` occurs in the texts that the field searches. */
  | { kind: 'search'; field: string; words: string[] };

/** Lists whose memberships by rule may be out of date for contacts that are settling. */
export interface Changing {
  customerId: string;
  lists: string[];
}

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

/** Returns the list's id if the filter selects exactly the members of one list. The number of its members is stored. */
export function singleList(filter: Filter): string | undefined {
  if (filter.kind !== 'in' || filter.field !== 'list_id' || filter.values.length !== 1) return undefined;
  return String(filter.values[0]);
}

/** Returns the names of all fields that a filter uses, as written in requests. */
export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  if (filter.kind === 'member' || filter.kind === 'copied') return new Set(['list_id']);
  return new Set([filter.kind === 'settling' ? 'company_id' : filter.field]);
}
