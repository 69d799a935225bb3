import { filterLimits, type FieldType } from '../schemas/filters.ts';
import { isInstant } from '../schemas/base/formats.ts';
import { lengthOf } from '../text/code-points.ts';
import { fold } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import type { FilterValue } from './tree.ts';

/** The canonical value, or a message that tells what the value must be. */
export type ReadValue = { value: FilterValue } | { fault: string };

/** The value must have the JSON type of its field: the text `"5"` is not an integer. */
export const readValue = (type: FieldType, given: unknown): ReadValue => readers[type](given);

const readers: Record<FieldType, (given: unknown) => ReadValue> = {
  text: (given) => readText(given, fold),
  exact: (given) => readText(given, (text) => text),
  integer: (given) =>
    isInt4(given) ? { value: given } : { fault: 'must be a whole number from -2147483648 to 2147483647' },
  instant: (given) =>
    typeof given === 'string' && isInstant(given)
      ? { value: canonicalInstant(given) }
      : { fault: 'must be an RFC 3339 date-time with an offset, such as 2026-03-14T09:26:53.589Z' },
  uuid: (given) => {
    const value = typeof given === 'string' ? canonicalId(given) : undefined;
    return value === undefined ? { fault: 'must be a UUID' } : { value };
  },
  custom: (given) => {
    if (typeof given === 'boolean' || Number.isFinite(given)) return { value: given as boolean | number };
    return typeof given === 'string' ? readText(given, fold) : { fault: 'must be a string, a number or a boolean' };
  },
  search: (given) => readText(given, fold),
};

function readText(given: unknown, canonical: (text: string) => string): ReadValue {
  if (typeof given !== 'string') return { fault: 'must be a string' };
  if (given.length > filterLimits.characters && lengthOf(given) > filterLimits.characters)
    return { fault: `must have at most ${filterLimits.characters} characters` };
  return { value: canonical(given) };
}

const isInt4 = (given: unknown): given is number =>
  Number.isInteger(given) && (given as number) === ((given as number) | 0);

/** Returns ISO 8601 in UTC, rounded down to the millisecond. */
export const canonicalInstant = (text: string): string => new Date(text.toUpperCase()).toISOString();
