/** Names are kept without the white space around them, whichever record they name. */
const names = new Set(['name', 'first_name', 'last_name', 'company_name']);
/** Codes of countries and currencies are kept in upper case. */
const codes = new Set(['location_country', 'currency']);

/** Fields of a request as they are kept: names trimmed, codes in upper case, all else as it came. */
export function normalise<T extends object>(fields: T): T {
  const entries = Object.entries(fields).map(([field, value]) => [field, keep(field, value)]);
  return Object.fromEntries(entries) as T;
}

function keep(field: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (names.has(field)) return value.trim();
  return codes.has(field) ? value.toUpperCase() : value;
}

/** What two spellings of the same e-mail address have in common: white space around it and case tell none apart. */
export const addressKey = (address: string): string => address.trim().toLowerCase();
