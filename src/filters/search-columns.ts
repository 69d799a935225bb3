import { companySource, contactSource, type Source } from './columns.ts';
import { foldRecord, type Folded, type RecordFields } from './fields.ts';
import { marksOf, Terms } from './terms.ts';

/**
 * The database columns that are computed from a record so that filters can find it. Every statement that creates or
 * changes a record must write both columns.
 */
export interface SearchColumns {
  folded: Folded;
  /** Search terms: hashes of the record's values and of the parts of its texts. The column has an index. */
  terms: number[];
}

/**
 * Computes the database columns with which filters find a contact.
 * @param contact all fields of the contact, not only the changed ones
 */
export const searchColumnsOfContact = (customerId: string, contact: RecordFields): SearchColumns =>
  searchColumnsOf(contactSource, customerId, contact);

/**
 * Computes the database columns with which filters find a company.
 * @param company all fields of the company, not only the changed ones
 */
export const searchColumnsOfCompany = (customerId: string, company: RecordFields): SearchColumns =>
  searchColumnsOf(companySource, customerId, company);

/**
 * Computes the database columns with which filters find a record, and marks in `folded` that both are up to date.
 * @param record all fields of the record, not only the changed ones
 */
export function searchColumnsOf(source: Source, customerId: string, record: RecordFields): SearchColumns {
  const folded = foldRecord(source, record);
  const terms = new Terms(source, customerId).ofRecord(folded, record);
  for (const mark of marksOf(source)) folded[mark] = 'yes';
  return { folded, terms };
}
