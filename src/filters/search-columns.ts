import { companySource, contactSource, type Source } from './columns.ts';
import { foldCompany, foldContact, type Folded, type RecordFields } from './fields.ts';
import { indexedKey, Terms } from './terms.ts';

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
  withTerms(contactSource, customerId, foldContact(contact), contact);

/**
 * Computes the database columns with which filters find a company.
 * @param company all fields of the company, not only the changed ones
 */
export const searchColumnsOfCompany = (customerId: string, company: RecordFields): SearchColumns =>
  withTerms(companySource, customerId, foldCompany(company), company);

/**
 * Computes the search terms (hashes) of a record. Returns the database columns `terms` and `folded`, and marks in
 * `folded` that the terms are up to date.
 * @param folded the record's texts in lower case without accents
 * @param record the record's other fields
 */
export function withTerms(source: Source, customerId: string, folded: Folded, record: RecordFields): SearchColumns {
  const terms = new Terms(source, customerId).ofRecord(folded, record);
  return { folded: { ...folded, [indexedKey]: 'yes' }, terms };
}
