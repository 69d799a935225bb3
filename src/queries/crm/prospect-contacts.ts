import type postgres from 'postgres';
import { searchColumnsOfContact } from '../../filters/search-columns.ts';
import type { Contact } from '../../schemas/contacts.ts';
import { isEmailAddress } from '../../schemas/base/formats.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import { fold } from '../../text/fold.ts';
import { isPlaceholder } from '../../text/normalise.ts';
import { blank, type ContactColumns } from './contacts.ts';
import type { CountryCodes } from '../../files/values/country-codes.ts';

/**
 * A contact that is created from a prospect: the columns that callers can write, and those that only the service
 * writes.
 */
export type SyncedContact = ContactColumns &
  Pick<Contact, 'score' | 'verification_status' | 'crm_synced_at'> & {
    prospect_id: string | null;
    last_verified: string | null;
  };

/**
 * Maximum lengths of a contact's texts (characters), and the maximum number of its other e-mail addresses. Values of a
 * prospect can exceed these limits.
 */
const maxLengths = { text: 255, url: 2048, otherEmails: 20 };

/**
 * Converts a prospect to a contact.
 * - `work_email` is `""` if the prospect has no work e-mail or an invalid one. The contact is then unverified, because
 *   the prospect's verification is about no address of the contact. Unknown names are `""` too.
 * - `other_emails` has the prospect's other addresses. The catalog does not say which of them are for work.
 * - `mobile_phone` has the phone. `phone_numbers` stays empty, because the catalog does not say where the country
 *   code ends.
 * - `location_country` is `""` if the country has no unambiguous code.
 */
export function toContact(prospect: Prospect, codeOf: CountryCodes): SyncedContact {
  const work_email = isEmailAddress(prospect.work_email) ? prospect.work_email : '';
  return {
    ...blank,
    prospect_id: prospect._id,
    first_name: clip(prospect.first_name),
    last_name: clip(prospect.last_name),
    job_title: clip(prospect.job_title),
    industry: clip(prospect.job_company_industry),
    work_email,
    other_emails: otherEmails(prospect.emails, work_email),
    mobile_phone: prospect.mobile_phone && clip(prospect.mobile_phone),
    phone_numbers: [],
    location_locality: clip(prospect.location_locality),
    location_region: clip(prospect.location_region),
    location_country: codeOf(prospect.location_country),
    location_postal_code: prospect.location_postal_code && clip(prospect.location_postal_code),
    profnet_url: url(prospect.profnet_url),
    social1_url: url(prospect.social1_url),
    social2_url: url(prospect.social2_url),
    score: prospect.score,
    verification_status: work_email === '' ? 'unverified' : prospect.verification_status,
    last_verified: work_email === '' ? null : prospect.date_verified,
    crm_synced_at: null,
  };
}

/** Undefined also for a placeholder: all people whose company is `-` would get one company. */
export function companyOf(prospect: Prospect): { company_name: string; industry: string } | undefined {
  const company_name = clip(prospect.job_company_name.trim());
  return isPlaceholder(company_name) ? undefined : { company_name, industry: clip(prospect.job_company_industry) };
}

const clip = (text: string): string =>
  text.length <= maxLengths.text ? text : Array.from(text).slice(0, maxLengths.text).join('');

/**
 * Returns the URL unchanged, or null if it is too long for a contact. A URL is not shortened, because it would then
 * lead to another page.
 */
const url = (text: string | null): string | null => (text !== null && text.length <= maxLengths.url ? text : null);

function otherEmails(emails: string[], workEmail: string): string[] | null {
  const others = new Map(emails.filter(isEmailAddress).map((email) => [fold(email), email]));
  others.delete(fold(workEmail));
  return others.size === 0 ? null : [...others.values()].slice(0, maxLengths.otherEmails);
}

export const syncedColumns = {
  prospect_id: 'uuid',
  first_name: 'text',
  last_name: 'text',
  job_title: 'text',
  industry: 'text',
  work_email: 'text',
  other_emails: 'text[]',
  mobile_phone: 'text',
  location_locality: 'text',
  location_region: 'text',
  location_country: 'text',
  location_postal_code: 'text',
  profnet_url: 'text',
  social1_url: 'text',
  social2_url: 'text',
  company_id: 'uuid',
  score: 'integer',
  verification_status: 'text',
  last_verified: 'timestamptz',
} as const satisfies Partial<Record<keyof SyncedContact, string>>;

const columns = Object.keys(syncedColumns) as (keyof typeof syncedColumns)[];

/**
 * Returns the contact `own` with its empty fields filled in from `given`, a contact created from a prospect. A score of
 * `0` and the status `unverified` count as empty. The verification status is copied only if both contacts then have the
 * same work e-mail. A status without a work e-mail counts as empty, because it is about no address.
 */
export function fillIn<T extends SyncedContact>(own: T, inCatalog: SyncedContact): T {
  const filled = { ...own };
  for (const column of columns)
    if (column !== 'last_verified' && isEmpty(own[column])) Object.assign(filled, { [column]: inCatalog[column] });
  const isVerified = own.verification_status !== 'unverified' && own.work_email !== '';
  if (isVerified || fold(filled.work_email) !== fold(inCatalog.work_email)) return filled;
  const { verification_status, last_verified } = inCatalog;
  return { ...filled, verification_status, last_verified };
}

export const isEmpty = (value: unknown): boolean =>
  value === null || value === '' || value === 0 || (Array.isArray(value) && value.length === 0);

/** Returns a contact as JSON for an SQL statement: the columns that a prospect can fill in, and the search columns. */
export function toRow(customerId: string, contact: SyncedContact): Record<string, postgres.JSONValue> {
  const row: Record<string, postgres.JSONValue> = { ...searchColumnsOfContact(customerId, contact) };
  for (const column of columns) row[column] = contact[column];
  return row;
}
