import type { TextField } from '../schemas/prospects.ts';

/**
 * Both engines store these codes instead of field names, to save space. Do not change one: stored catalogs contain it.
 */
export const fieldCodes = {
  first_name: 'f',
  last_name: 'l',
  job_title: 't',
  job_company_name: 'n',
  job_company_industry: 'i',
  location_locality: 'c',
  location_region: 'r',
  location_country: 'y',
  location_postal_code: 'p',
} as const satisfies Record<TextField, string>;

export type FieldCode<M extends TextField> = (typeof fieldCodes)[M];
