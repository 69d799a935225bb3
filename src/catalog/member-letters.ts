import type { TextMember } from '../schemas/prospects.ts';

/**
 * The letter by which the engines know a member of a prospect: its name would stand beside every value they keep. Both
 * have written them down: another letter is another catalog.
 */
export const memberLetters = {
  first_name: 'f',
  last_name: 'l',
  job_title: 't',
  job_company_name: 'n',
  job_company_industry: 'i',
  location_locality: 'c',
  location_region: 'r',
  location_country: 'y',
  location_postal_code: 'p',
} as const satisfies Record<TextMember, string>;

/** The letter of a member, as a type. */
export type Letter<M extends TextMember> = (typeof memberLetters)[M];
