import { filterLimits, type FieldType } from '../schemas/filters.ts';
import { isInstant } from '../schemas/base/formats.ts';
import { lengthOf } from '../text/code-points.ts';
import { fold } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import type { FilterValue } from './tree.ts';

/** Message about a number that JSON does not hold exactly. */
export const unsafeNumber = `is a number beyond ±${Number.MAX_SAFE_INTEGER}: send it as a text`;

/** The canonical value, or a message that tells what the value must be. */
type ReadValue = { value: FilterValue } | { fault: string };

/** The value must have the JSON type of its field: the text `"5"` is not an integer. */
export const readValue = (type: FieldType, input: unknown): ReadValue => readers[type](input);

const readers: Record<FieldType, (input: unknown) => ReadValue> = {
  text: (input) => readText(input, fold),
  exact: (input) => readText(input, (text) => text),
  integer: (input) =>
    isInt4(input) ? { value: input } : { fault: 'must be a whole number from -2147483648 to 2147483647' },
  instant: (input) =>
    typeof input === 'string' && isInstant(input)
      ? { value: canonicalInstant(input) }
      : { fault: 'must be an RFC 3339 date-time with an offset, such as 2026-03-14T09:26:53.589Z' },
  uuid: (input) => {
    const value = typeof input === 'string' ? canonicalId(input) : undefined;
    return value === undefined ? { fault: 'must be a UUID' } : { value };
  },
  custom: (input) => {
    if (typeof input === 'number' && Math.abs(input) > Number.MAX_SAFE_INTEGER) return { fault: unsafeNumber };
    if (typeof input === 'boolean' || typeof input === 'number') return { value: input };
    return typeof input === 'string' ? readText(input, fold) : { fault: 'must be a string, a number or a boolean' };
  },
  search: (input) => readText(input, fold),
};

function readText(input: unknown, canonical: (text: string) => string): ReadValue {
  if (typeof input !== 'string') return { fault: 'must be a string' };
  if (input.length > filterLimits.characters && lengthOf(input) > filterLimits.characters)
    return { fault: `must have at most ${filterLimits.characters} characters` };
  return { value: canonical(input) };
}

const isInt4 = (input: unknown): input is number =>
  Number.isInteger(input) && (input as number) === ((input as number) | 0);

/** Returns ISO 8601 in UTC, rounded down to the millisecond. */
export const canonicalInstant = (text: string): string => new Date(text.toUpperCase()).toISOString();
