import { companySource, contactSource, type Source } from './columns.ts';
import { foldCompany, foldContact, type Folded, type RecordFields } from './fields.ts';
import { indexedKey, Terms } from './terms.ts';

/**
 * The database columns by which a record is found. They must be written together, whenever a record is created or
 * changed.
 */
export interface SearchColumns {
  folded: Folded;
  /** Search terms: hashes of the record's values and of the parts of its texts. An index finds the record by them. */
  terms: number[];
}

/** Returns a contact's search columns. The parameter `contact` must have all fields of the contact. */
export const searchColumnsOfContact = (customerId: string, contact: RecordFields): SearchColumns =>
  withTerms(contactSource, customerId, foldContact(contact), contact);

/** Returns a company's search columns. The parameter `company` must have all fields of the company. */
export const searchColumnsOfCompany = (customerId: string, company: RecordFields): SearchColumns =>
  withTerms(companySource, customerId, foldCompany(company), company);

/**
 * Returns the search columns of a record: its terms, and its folded texts with the mark that the terms are up to date.
 */
export function withTerms(source: Source, customerId: string, folded: Folded, record: RecordFields): SearchColumns {
  const terms = new Terms(source, customerId).ofRecord(folded, record);
  return { folded: { ...folded, [indexedKey]: 'yes' }, terms };
}
