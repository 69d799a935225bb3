import type { TextField } from '../schemas/prospects.ts';

/**
 * A one-letter code for each text field of a prospect. Postgres and Elasticsearch store the code instead of the field
 * name, to save space. Do not change a code: stored catalogs contain it.
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

/** The type of a field's one-letter code in the index. For the field `first_name` it is `'f'`. */
export type FieldCode<M extends TextField> = (typeof fieldCodes)[M];
