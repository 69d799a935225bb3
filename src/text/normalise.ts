import { withAsciiDomain } from './email-domains.ts';

/** Fields stored without white space at start and end. */
const names = new Set(['name', 'first_name', 'last_name', 'company_name']);
const codes = new Set(['location_country', 'currency']);

export function normalise<T extends object>(fields: T): T {
  const entries = Object.entries(fields).map(([field, value]) => [field, normaliseField(field, value)]);
  return Object.fromEntries(entries) as T;
}

function normaliseField(field: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (names.has(field)) return value.trim();
  return codes.has(field) ? value.toUpperCase() : value;
}

export const emailKey = (address: string): string => withAsciiDomain(address.trim()).toLowerCase();

/** True for `n/a`, and for a text without letters and digits, such as `-`: what many people have identifies nobody. */
export const isPlaceholder = (text: string): boolean => /^\s*#?n\/a\s*$|^[^\p{L}\p{N}]*$/iu.test(text);
