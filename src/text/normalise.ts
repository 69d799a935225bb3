/** Names of fields whose value is stored without white space at its start and end. */
const names = new Set(['name', 'first_name', 'last_name', 'company_name']);
/** Names of fields whose value is stored in upper case: codes of countries and currencies. */
const codes = new Set(['location_country', 'currency']);

/**
 * Prepares the fields of a request for storage: trims names, and converts country and currency codes to upper
 * case.
 * Other fields stay unchanged.
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

/** Returns an e-mail address in the form in which addresses are compared: trimmed and in lower case. */
export const emailKey = (address: string): string => address.trim().toLowerCase();
