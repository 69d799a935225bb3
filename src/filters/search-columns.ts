import { companySource, contactSource, type Source } from './columns.ts';
import { foldRecord, type Folded, type RecordFields } from './fields.ts';
import { marksOf, Terms } from './terms.ts';

/** Columns by which filters find a record. Every statement that writes a record must write both. */
export interface SearchColumns {
  folded: Folded;
  /** Hashes of the record's values and of the parts of its texts, with an index. */
  terms: number[];
}

/** @param contact all fields, not only the changed ones */
export const searchColumnsOfContact = (customerId: string, contact: RecordFields): SearchColumns =>
  searchColumnsOf(contactSource, customerId, contact);

/** @param company all fields, not only the changed ones */
export const searchColumnsOfCompany = (customerId: string, company: RecordFields): SearchColumns =>
  searchColumnsOf(companySource, customerId, company);

/**
 * Also marks in `folded` that both columns are up to date.
 * @param record all fields, not only the changed ones
 */
export function searchColumnsOf(source: Source, customerId: string, record: RecordFields): SearchColumns {
  const folded = foldRecord(source, record);
  const terms = new Terms(source, customerId).ofRecord(folded, record);
  for (const mark of marksOf(source)) folded[mark] = 'yes';
  return { folded, terms };
}
