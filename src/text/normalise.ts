/** Fields that are stored without surrounding white space. */
const names = new Set(['name', 'first_name', 'last_name', 'company_name']);
/** Fields that are stored in upper case: codes of countries and currencies. */
const codes = new Set(['location_country', 'currency']);

/**
 * Normalises the fields of a request for storage: trims names, converts codes to upper case. Other fields stay
 * unchanged.
 */
export function normalise<T extends object>(fields: T): T {
  const entries = Object.entries(fields).map(([field, value]) => [field, normaliseField(field, value)]);
  return Object.fromEntries(entries) as T;
}

function normaliseField(field: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (names.has(field)) return value.trim();
  return codes.has(field) ? value.toUpperCase() : value;
}

/**
 * Returns the comparison key of an e-mail address: trimmed and in lower case. Addresses with equal keys are the same.
 */
export const emailKey = (address: string): string => address.trim().toLowerCase();
