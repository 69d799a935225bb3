import type { Company } from '../../schemas/companies.ts';
import type { Contact } from '../../schemas/contacts.ts';
import type { Pool } from '../../schemas/credits.ts';
import { customKey } from '../../schemas/filters.ts';
import type { ImportObject } from '../../schemas/imports.ts';
import { companyLabels, contactLabels } from '../../schemas/fields.ts';
import type { JobType } from '../../schemas/jobs.ts';
import type { RuleOperator } from '../../schemas/lists.ts';
import type { Opportunity } from '../../schemas/opportunities.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import type { Role } from '../../schemas/users.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import type { Tone } from './html.ts';

/*
 * What people call the things that the API has names for. All pages take their words from here, and the titles of the
 * columns of Excel files are the same (schemas/fields.ts).
 */

/** Names of a record's fields for people. */
type Words<Field extends string> = Readonly<Record<Field, string>>;

export const contactWords = {
  ...contactLabels,
  id: 'Id',
  external_id: 'Your own id',
  assigned_to: 'Assigned to',
  company: 'Company',
  'company.id': 'Id of the company',
  'company.company_name': 'Company',
  company_id: 'Id of the company',
  full_name: 'Full name',
  list_ids: 'Lists',
  list_id: 'List',
  custom_fields: 'Your own fields',
  search: 'Search',
} satisfies Readonly<Record<string, string | null>> & Record<keyof Contact, string | null>;

export const companyWords = {
  ...companyLabels,
  id: 'Id',
  external_id: 'Your own id',
  custom_fields: 'Your own fields',
  search: 'Search',
} satisfies Readonly<Record<string, string | null>> & Record<keyof Company, string | null>;

export const opportunityWords = {
  id: 'Id',
  name: 'Name',
  description: 'Description',
  price: 'Value',
  priority: 'Priority',
  stage_id: 'Stage',
  contacts_ids: 'Contacts',
  company_id: 'Company',
  user_id_assigned: 'Assigned to',
  estimated_closing_date: 'Expected to close',
  close_date: 'Closes',
  source_id: 'Your own source',
  details: 'Products',
  created_at: 'Created',
  updated_at: 'Last changed',
} satisfies Words<keyof Opportunity>;

export const prospectWords = {
  _id: 'Id',
  first_name: 'First name',
  last_name: 'Last name',
  job_title: 'Job title',
  job_company_name: 'Company',
  job_company_industry: 'Industry of the company',
  work_email: 'Work e-mail',
  emails: 'All e-mails',
  mobile_phone: 'Mobile phone',
  location_locality: 'City',
  location_region: 'Region',
  location_country: 'Country',
  location_postal_code: 'Postal code',
  profnet_url: 'Profile',
  social1_url: 'Social profile',
  social2_url: 'Second social profile',
  verification_status: 'E-mail status',
  score: 'Score',
  date_verified: 'Last verified',
  source: 'Source of the data',
  collected_at: 'Data collected',
} satisfies Words<keyof Prospect>;

const byObject: Record<ImportObject, Readonly<Record<string, string | null>>> = {
  contacts: contactWords,
  companies: companyWords,
};

/**
 * Returns the word for a field of contacts or companies. A field of your own (`custom_fields.<key>`) is called by its
 * key. A name that is not known is returned without underscores.
 */
export function fieldWord(object: ImportObject, name: string): string {
  const words = byObject[object];
  return (Object.hasOwn(words, name) ? words[name] : undefined) ?? customKey(name) ?? plain(name);
}

/** Returns a name of the API as words, such as `Accept all` for `accept_all`. */
export function plain(name: string): string {
  const text = name.replaceAll(/[_.]/g, ' ').toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

type VerificationStatus = (typeof verificationStatuses)[number];

/** What the last verification of an e-mail address found: a word, its reason, and a colour. */
export const verificationWords: Readonly<Record<VerificationStatus, { word: string; reason: string; tone: Tone }>> = {
  unverified: { word: 'not verified', reason: 'Nobody has checked this address yet.', tone: 'plain' },
  verified: { word: 'verified', reason: 'The address accepts mail.', tone: 'good' },
  invalid: { word: 'invalid', reason: 'The address does not accept mail.', tone: 'bad' },
  accept_all: {
    word: 'accepts all',
    reason: 'The mail server accepts every address, so it says nothing about this one.',
    tone: 'warning',
  },
  disposable: { word: 'throw-away', reason: 'The address belongs to a service for throw-away mailboxes.', tone: 'bad' },
  do_not_mail: {
    word: 'do not mail',
    reason: 'The address belongs to a role, such as info@, and not to a person.',
    tone: 'warning',
  },
  unknown: { word: 'unclear', reason: 'The mail server gave no clear answer.', tone: 'busy' },
};

/** What a job does. */
export const jobWords: Words<JobType> = {
  unlock_contacts: 'Unlock prospects by filter',
  unlock_selected_contacts: 'Unlock chosen prospects',
  verify_email: 'Verify e-mail addresses',
  verify_list: 'Verify a list',
  enrich_contacts: 'Enrich contacts',
  undo: 'Undo a change',
};

/** How rules compare, as the middle of a sentence: “Job title contains engineer”. */
export const operatorWords: Words<RuleOperator> = {
  equals: 'is',
  not_equals: 'is not',
  contains: 'contains',
  not_contains: 'does not contain',
  starts_with: 'begins with',
  ends_with: 'ends with',
  greater_than: 'is more than',
  greater_or_equal: 'is at least',
  less_than: 'is less than',
  less_or_equal: 'is at most',
  in: 'is one of',
  not_in: 'is none of',
  is_empty: 'is empty',
  is_not_empty: 'is not empty',
};

export const priorityWords: Readonly<Record<Opportunity['priority'], { word: string; tone: Tone }>> = {
  URGENT: { word: 'urgent', tone: 'bad' },
  HIGHT: { word: 'high', tone: 'warning' },
  MEDIUM: { word: 'medium', tone: 'busy' },
  LOW: { word: 'low', tone: 'plain' },
  NONE: { word: 'none', tone: 'plain' },
};

export const roleWords: Readonly<Record<Role, { word: string; may: string }>> = {
  admin: { word: 'Admin', may: 'may also spend credits, and manage keys and users' },
  member: { word: 'Member', may: 'may work with contacts, companies, lists and opportunities' },
};

export const poolWords: Readonly<Record<Pool, { word: string; purpose: string }>> = {
  subscription: { word: 'Prospects', purpose: 'to unlock prospects' },
  verification: { word: 'Verification', purpose: 'to verify e-mail addresses' },
};
