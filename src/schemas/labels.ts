import type { Company } from './companies.ts';
import type { Contact } from './contacts.ts';

/** Names of fields for people, in the order in which people read them. Null: a field for programs, such as an id. */
type Labels<Field extends string> = Record<Field, string | null>;

/** A contact's lists, in files for people: the names of those to which it was added by hand. */
export const listNames = 'list_names';

export const contactLabels: Labels<
  Exclude<keyof Contact, 'company' | 'custom_fields'> | 'company.name' | 'company.industry' | typeof listNames
> = {
  first_name: 'First name',
  middle_name: 'Middle name',
  last_name: 'Last name',
  work_email: 'Work e-mail',
  personal_email: 'Personal e-mail',
  other_emails: 'Other e-mails',
  phone_numbers: 'Phone numbers',
  mobile_phone: 'Mobile phone',
  job_title: 'Job title',
  'company.name': 'Company',
  'company.industry': 'Industry of the company',
  industry: 'Industry',
  location_locality: 'City',
  location_region: 'Region',
  location_postal_code: 'Postal code',
  location_country: 'Country',
  profnet_url: 'Profile',
  social1_url: 'Social profile',
  social2_url: 'Second social profile',
  gender: 'Gender',
  birth_year: 'Year of birth',
  verification_status: 'E-mail status',
  score: 'Score',
  [listNames]: 'Lists',
  last_verified: 'Last verified',
  crm_synced_at: 'Last CRM sync',
  removal_requested_at: 'Removal requested',
  created_at: 'Created',
  updated_at: 'Last changed',
  id: null,
  external_id: null,
  assigned_to: null,
};

export const companyLabels: Labels<Exclude<keyof Company, 'custom_fields'>> = {
  company_name: 'Name',
  type: 'Type',
  industry: 'Industry',
  size: 'Size',
  location_street_address: 'Street',
  location_address_line_2: 'Second address line',
  location_postal_code: 'Postal code',
  location_locality: 'City',
  location_metro: 'Metropolitan area',
  location_region: 'Region',
  location_country: 'Country',
  profnet_url: 'Profile',
  social1_url: 'Social profile',
  social2_url: 'Second social profile',
  verification_status: 'Status',
  score: 'Score',
  last_verified: 'Last verified',
  created_at: 'Created',
  updated_at: 'Last changed',
  id: null,
  external_id: null,
};
