import type { Column } from '../filters/columns.ts';
import { prospectOrderFields, type Prospect } from '../schemas/prospects.ts';
import { foldedOf, hasEmail } from './document.ts';

/** The name of a field by which lists of prospects can be sorted. */
export type SortField = keyof typeof prospectOrderFields.types;

/** One field of a sort order, with its direction. Prospects without a value (null) come last in both directions. */
export interface SortKey {
  field: SortField;
  direction: 'ASC' | 'DESC';
}

/**
 * A sort order for prospects: fields with their directions, the most important field first. Prospects with equal values
 * in all fields are sorted by id, ascending.
 */
export type ProspectOrder = readonly SortKey[];

/**
 * A prospect's value in a sort field: a text in lower case and without accents, a whole number (also 0 for false and 1
 * for true), an ISO 8601 timestamp, or null.
 */
export type SortValue = string | number | null;

/**
 * The position of a prospect in a sort order: its values in the sort fields, and its id. A page starts after the
 * position of the last prospect on the page before.
 */
export interface ProspectPosition {
  id: string;
  /** The prospect's values in the sort fields, in the order of these fields. */
  values: SortValue[];
}

/** The default sort order of prospects: by score, the highest first. */
export const bestFirst: ProspectOrder = [{ field: 'score', direction: 'DESC' }];

/** Returns the position of a prospect in a sort order: its values in the sort fields, and its id. */
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

/** Returns whether a prospect's value in this sort field can be null. Only the postal code can. */
export const isNullable = (field: SortField): boolean => field === 'location_postal_code';

/**
 * Returns a description of each field in a sort order: its type, and whether it can be null. The descriptions are used
 * to check the values in a client's cursor.
 */
export const cursorColumns = (order: ProspectOrder): Column[] =>
  order.map(({ field }) => ({
    type: prospectOrderFields.types[field],
    value: field,
    raw: field,
    required: !isNullable(field),
  }));
