import type { Column } from '../filters/columns.ts';
import { prospectTable, type Prospect } from '../schemas/prospects.ts';
import { foldedOf, hasEmail } from './document.ts';

type Table = typeof prospectTable;
export type SortField = { [Name in keyof Table]: Table[Name] extends { filter: string } ? Name : never }[keyof Table];

/** Prospects without a value (null) come last in both directions. */
export interface SortKey {
  field: SortField;
  direction: 'ASC' | 'DESC';
}

/** Most important field first. Ties are sorted by id, ascending. */
export type ProspectOrder = readonly SortKey[];

/** A folded text, a whole number (0 and 1 for booleans), an ISO 8601 timestamp, or null. */
export type SortValue = string | number | null;

/** A prospect's place in a sort order. A page starts after the last prospect of the page before. */
export interface ProspectPosition {
  id: string;
  values: SortValue[];
}

export const bestFirst: ProspectOrder = [{ field: 'score', direction: 'DESC' }];

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

export const isNullable = (field: SortField): boolean => field === 'location_postal_code';

export const cursorColumns = (order: ProspectOrder): Column[] =>
  order.map(({ field }) => ({
    type: prospectTable[field].filter,
    value: field,
    raw: field,
    required: !isNullable(field),
  }));
