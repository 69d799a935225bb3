import type { FieldType } from '../schemas/base/field-table.ts';
import { isInstant } from '../schemas/base/formats.ts';
import { domainOf } from '../text/domains.ts';
import { fold } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import type { FilterValue } from './tree.ts';

/** Returns ISO 8601 in UTC, rounded down to the millisecond. */
export const canonicalInstant = (text: string): string => new Date(text.toUpperCase()).toISOString();

const canonicals: Partial<Record<FieldType, (text: string) => string>> = {
  exact: (text) => text,
  domain: (text) => domainOf(text) ?? text.toLowerCase(),
  instant: canonicalInstant,
  uuid: (text) => text.toLowerCase(),
  of: (text) => text.toLowerCase(),
};

/** Returns a valid value of a filter in the form in which it is compared. */
export const canonicalOf = (type: FieldType, value: FilterValue): FilterValue =>
  typeof value === 'string' ? (canonicals[type] ?? fold)(value) : value;

const isInt4 = (text: string): boolean => /^\s*[+-]?\d{1,10}\s*$/.test(text) && Number(text) === (Number(text) | 0);

/** What the text of a rule must be, and whether one is. Any text is valid for the other types. */
const checks: Partial<Record<FieldType, { is: (text: string) => boolean; name: string }>> = {
  integer: { is: isInt4, name: 'a whole number from -2147483648 to 2147483647' },
  instant: {
    is: (text) => isInstant(text.trim()),
    name: 'an RFC 3339 date-time with an offset, such as 2026-03-14T09:26:53.589Z',
  },
  uuid: { is: (text) => canonicalId(text.trim()) !== undefined, name: 'a UUID' },
};

/** Reads the text of a rule as a value of its field. Returns the canonical value, or what is wrong with the text. */
export function readText(type: FieldType, text: string): { value: FilterValue } | { fault: string } {
  const check = checks[type];
  if (!check) return { value: canonicalOf(type, text) };
  if (!check.is(text)) return { fault: `must be ${check.name}` };
  return { value: type === 'integer' ? Number(text) : canonicalOf(type, text.trim()) };
}
