import type postgres from 'postgres';
import { foldContact } from '../filters/fields.ts';
import { fold } from '../fold.ts';
import type { CountryCodes } from '../country-codes.ts';
import type { Contact } from '../schemas/contacts.ts';
import { formats } from '../schemas/formats.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { blank, type ContactColumns } from './contacts.ts';

/** A contact as far as a prospect can tell of it, and what a caller cannot write besides. */
export type SyncedContact = ContactColumns &
  Pick<Contact, 'score' | 'verification_status'> & { prospect_id: string | null; last_verified: string | null };

/** What a request's bounds are to a contact, the catalog's are not always. */
const longest = { text: 255, url: 2048, email: 254, otherEmails: 20 };

/**
 * The contact that a prospect is. Who has no work e-mail, or something that is no address in its place, becomes a contact
 * all the same: `work_email` is `""` then, as every string that nobody has given, and so are names that are not known. The
 * other addresses are its `other_emails`; which of them are for work nobody says. The phone is `mobile_phone`: where its
 * country code ends nobody says either. A country that has no certain code is `""`.
 */
export function toContact(prospect: Prospect, codeOf: CountryCodes): SyncedContact {
  const work_email = isAddress(prospect.work_email) ? prospect.work_email : '';
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
    verification_status: prospect.verification_status,
    last_verified: prospect.date_verified,
  };
}

/** The company that a prospect works for, if it is known. */
export function companyOf(prospect: Prospect): { company_name: string; industry: string } | undefined {
  const company_name = clip(prospect.job_company_name.trim());
  return company_name === '' ? undefined : { company_name, industry: clip(prospect.job_company_industry) };
}

const clip = (text: string): string =>
  text.length <= longest.text ? text : Array.from(text).slice(0, longest.text).join('');

/** The beginning of an address leads elsewhere. */
const url = (text: string | null): string | null => (text !== null && text.length <= longest.url ? text : null);

const isAddress = (text: string): boolean => text.length <= longest.email && formats['email']!(text);

function otherEmails(emails: string[], workEmail: string): string[] | null {
  const others = new Map(emails.filter(isAddress).map((email) => [fold(email), email]));
  others.delete(fold(workEmail));
  return others.size === 0 ? null : [...others.values()].slice(0, longest.otherEmails);
}

/** The columns that a prospect can fill in, with their types. */
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
 * A contact with what a prospect adds: whatever it has of its own stays, `0` being no score and `unverified` no
 * verification. How the prospect's address was verified is told of a contact that has the same one.
 */
export function fillIn<T extends SyncedContact>(own: T, given: SyncedContact): T {
  const filled = { ...own };
  for (const column of columns)
    if (column !== 'last_verified' && isEmpty(own[column])) Object.assign(filled, { [column]: given[column] });
  if (own.verification_status !== 'unverified' || fold(filled.work_email) !== fold(given.work_email)) return filled;
  const { verification_status, last_verified } = given;
  return { ...filled, verification_status, last_verified };
}

const isEmpty = (value: unknown): boolean =>
  value === null || value === '' || value === 0 || (Array.isArray(value) && value.length === 0);

/** A contact as a statement is given it: the columns that a prospect can fill in, and the folded texts. */
export function toRow(contact: SyncedContact): Record<string, postgres.JSONValue> {
  const row: Record<string, postgres.JSONValue> = { folded: foldContact(contact) };
  for (const column of columns) row[column] = contact[column];
  return row;
}
