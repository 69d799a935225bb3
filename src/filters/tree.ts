/** A value to compare with, canonical: text folded, instants in UTC with milliseconds, UUIDs in lower case. */
export type FilterValue = string | number | boolean;

/**
 * What a filter asks, whatever language it was asked in and whatever engine will answer. Every operator of a request is
 * one of these or a combination of them: `ne` is `not` of `in`, `between` is two `compare`.
 *
 * A condition on a value that is not there is false (and its `not` therefore true), but for `empty`.
 */
export type Filter =
  /** Each of these holds; true when there is none. */
  | { kind: 'all'; of: Filter[] }
  /** At least one of these holds; false when there is none. */
  | { kind: 'any'; of: Filter[] }
  | { kind: 'not'; of: Filter }
  /** The field's value is one of these. */
  | { kind: 'in'; field: string; values: FilterValue[] }
  /** Text by code points of its folded form. */
  | { kind: 'compare'; field: string; operator: Comparison; value: FilterValue }
  /** The folded value has this text in it. */
  | { kind: 'contains'; field: string; text: string; at: 'anywhere' | 'start' | 'end' }
  /** The field is null, absent or `""`. */
  | { kind: 'empty'; field: string }
  /**
   * The contact has a membership in one of these lists, or in any; of the unsettled ones, whose rules are not written
   * down yet, only those made by hand count. The same goes for the changing ones where the contact is `settling`.
   */
  | { kind: 'member'; lists: string[] | 'any'; unsettled: string[]; changing?: Changing }
  /** The contact's company was changed or deleted, and memberships of its contacts may not have followed yet. */
  | { kind: 'settling'; customerId: string }
  /** Every one of these words occurs in what the field searches. */
  | { kind: 'search'; field: string; words: string[] };

/** Lists whose memberships by rule cannot be believed for contacts that are settling. */
export interface Changing {
  customerId: string;
  lists: string[];
}

export type Comparison = 'gt' | 'gte' | 'lt' | 'lte';

export const all = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'all', of });
export const any = (of: Filter[]): Filter => (of.length === 1 ? of[0]! : { kind: 'any', of });
export const not = (of: Filter): Filter => ({ kind: 'not', of });

/** The one list whose members are all that a filter asks for: their number is known. */
export function theOnlyList(filter: Filter): string | undefined {
  if (filter.kind !== 'in' || filter.field !== 'list_id' || filter.values.length !== 1) return undefined;
  return String(filter.values[0]);
}

/** Returns the names of all fields that a filter looks at, as a request has them. */
export function fieldsOf(filter: Filter): Set<string> {
  if (filter.kind === 'all' || filter.kind === 'any') return new Set(filter.of.flatMap((one) => [...fieldsOf(one)]));
  if (filter.kind === 'not') return fieldsOf(filter.of);
  if (filter.kind === 'member') return new Set(['list_id']);
  return new Set([filter.kind === 'settling' ? 'company_id' : filter.field]);
}
