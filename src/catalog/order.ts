import type { Column } from '../filters/columns.ts';
import type { Position } from '../filters/cursor.ts';
import { prospectOrderFields, type Prospect } from '../schemas/prospects.ts';
import { foldedOf, hasEmail } from './document.ts';

export type SortField = keyof typeof prospectOrderFields.types;

/** One key of an order; nulls come last in both directions. */
export interface SortKey {
  field: SortField;
  direction: 'ASC' | 'DESC';
}

/** Most significant key first; the id, ascending, decides what they leave open. */
export type ProspectOrder = readonly SortKey[];

/** What a prospect is sorted by: folded text, a whole number (also 0 and 1 of what is false or true), an ISO 8601 instant. */
export type SortValue = string | number | null;

/** Where a page ended. */
export interface ProspectPosition {
  id: string;
  /** One for each key of the order. */
  values: SortValue[];
}

export const bestFirst: ProspectOrder = [{ field: 'score', direction: 'DESC' }];

/** Where a prospect stands in an order. */
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

/** Only a postal code can be missing. */
export const isNullable = (field: SortField): boolean => field === 'location_postal_code';

/** The keys as a cursor's values are checked against them. */
export const cursorColumns = (order: ProspectOrder): Column[] =>
  order.map(({ field }) => ({
    type: prospectOrderFields.types[field],
    value: field,
    raw: field,
    required: !isNullable(field),
  }));

/** Whether a cursor carries the whole position; long texts it leaves to the prospect itself. */
export const isWhole = (position: Position): position is ProspectPosition =>
  position.values.every((value) => value !== true);
