import { conflict, missingReferences, validationFailed } from '../../../errors.ts';
import { maxMovedRecords, type Merge } from '../../../schemas/clean-data/merges.ts';
import { escapePointer } from '../../../text/json-pointer.ts';
import type { PlaceInOpportunity } from '../../memberships/opportunity-contacts.ts';
import type { Choices } from './merged-values.ts';

/** A merge, and the fields in which its records must be equal. */
export type SafeMerge = Merge & { equal?: readonly string[] };

/** What a merge has moved from a record to the one that stays. The journal keeps it with the record's deletion. */
export interface Moved {
  /** The lists and opportunities in which a contact that stays is because of merges alone. */
  lists?: string[];
  opportunities?: string[];
  /** Where the contact that stays was in opportunities. */
  places?: PlaceInOpportunity[];
  /** The contacts of a company. Its opportunities are above. */
  contacts?: string[];
  /** Ids of what had been merged into the record before. */
  merged?: string[];
}

/** Returns the ids of all records of a merge. The first is the one that stays. */
export const idsOf = ({ id, merge_ids }: Merge): string[] => [id, ...merge_ids];

/** @throws DomainError `validation_failed` if the ids of a merge contradict each other */
export function requireDistinct({ id, merge_ids, fields = {} }: Merge): void {
  const given = new Set([id, ...merge_ids]);
  const faults = [
    ...merge_ids.flatMap((one, i) =>
      one === id ? [{ path: `/merge_ids/${i}`, message: 'is the record that stays' }] : [],
    ),
    ...Object.entries(fields).flatMap(([name, one]) =>
      given.has(one)
        ? []
        : [{ path: `/fields/${escapePointer(name)}`, message: 'must be one of the records of this merge' }],
    ),
  ];
  if (faults.length > 0) throw validationFailed(faults);
}

/**
 * Returns the records of a merge in its order.
 * @throws DomainError `not_found` with the JSON pointer of every id that belongs to no record
 */
export function inOrder<R extends { id: string }>(noun: string, merge: Merge, found: readonly R[]): [R, ...R[]] {
  const byId = new Map(found.map((record) => [record.id, record]));
  const missing = idsOf(merge).flatMap((id, i) => (byId.has(id) ? [] : [i === 0 ? '/id' : `/merge_ids/${i - 1}`]));
  if (missing.length > 0) throw missingReferences(missing.map((path) => ({ noun, path })));
  return idsOf(merge).map((id) => byId.get(id)!) as [R, ...R[]];
}

/** Returns the record that the request chose for each field. */
export const choicesOf = <R extends { id: string }>({ fields = {} }: Merge, records: readonly R[]): Choices<R> =>
  new Map(Object.entries(fields).map(([name, id]) => [name, records.find((record) => record.id === id)!]));

/** Returns the column that holds a field of a merge. */
export const columnOf = (field: string): string => (field === 'company' ? 'company_id' : field);

/** @throws DomainError `conflict` if the records differ in a field in which they must be equal */
export function requireEqual({ equal = [] }: SafeMerge, records: readonly object[]): void {
  const columns = equal.map(columnOf);
  const valuesOf = (record: object) => JSON.stringify(columns.map((name) => record[name as keyof object]));
  if (new Set(records.map(valuesOf)).size > 1) throw conflict('These records are not equal any more');
}

/** @throws DomainError `conflict` if more records would move than one transaction may write */
export function requireFew(noun: string, counted: Record<string, number>): void {
  for (const [moved, count] of Object.entries(counted))
    if (count > maxMovedRecords)
      throw conflict(`More than ${maxMovedRecords} ${moved} would move: keep the ${noun} that has the most of them`, [
        { path: '/merge_ids', message: `have more than ${maxMovedRecords} ${moved}` },
      ]);
}
