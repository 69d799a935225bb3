import type { Column } from '../filters/columns.ts';
import type { Position } from '../filters/cursor.ts';
import { prospectOrderFields, type Prospect } from '../schemas/prospects.ts';
import { foldedOf, hasEmail } from './document.ts';

/** A field of a prospect that lists can be sorted by. */
export type SortField = keyof typeof prospectOrderFields.types;

/** One key of an order. Nulls come last in both directions. */
export interface SortKey {
  field: SortField;
  direction: 'ASC' | 'DESC';
}

/** A sort order: its keys, most significant first. Prospects with equal keys are sorted by id, ascending. */
export type ProspectOrder = readonly SortKey[];

/** A prospect's value for a sort key: folded text, a whole number (0 for false, 1 for true), or an ISO 8601 instant. */
export type SortValue = string | number | null;

/**
 * The position of a prospect in an order: its sort values and its id. The next page starts after the position of the
 * last prospect on this page.
 */
export interface ProspectPosition {
  id: string;
  /** One value for each key of the order. */
  values: SortValue[];
}

/** The default order: by score, descending. */
export const bestFirst: ProspectOrder = [{ field: 'score', direction: 'DESC' }];

/** Returns the position of a prospect in an order. */
export const positionOf = (prospect: Prospect, order: ProspectOrder): ProspectPosition => ({
  id: prospect._id,
  values: order.map(({ field }) => sortValue(prospect, field)),
});

function sortValue(prospect: Prospect, field: SortField): SortValue {
  switch (field) {
    case 'score':
    case 'date_verified':
    case 'verification_status':
      return prospect[field];
    case 'has_email':
      return Number(hasEmail(prospect));
    case 'has_phone':
      return Number(prospect.mobile_phone !== null);
    default:
      return foldedOf(prospect, field);
  }
}

/** Returns whether a sort field can be null. Only the postal code can. */
export const isNullable = (field: SortField): boolean => field === 'location_postal_code';

/** Returns the columns of a sort order. They are used to check the values of a cursor that a client sends. */
export const cursorColumns = (order: ProspectOrder): Column[] =>
  order.map(({ field }) => ({
    type: prospectOrderFields.types[field],
    value: field,
    raw: field,
    required: !isNullable(field),
  }));

/**
 * Returns whether a cursor contains all sort values of its prospect. A cursor has `true` in place of a long text, which
 * must then be read from the prospect.
 */
export const isWhole = (position: Position): position is ProspectPosition =>
  position.values.every((value) => value !== true);
