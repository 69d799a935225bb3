import { isDeepStrictEqual } from 'node:util';
import type { EventNoun } from '../../schemas/events/types.ts';

/** The columns of a record, by name. */
type Columns = Readonly<Record<string, unknown>>;

/** Columns whose values responses show under another name. */
const shownAs: Partial<Record<EventNoun, Record<string, string>>> = { contact: { company_id: 'company' } };

/** More custom fields than this, or longer names (UTF-8 bytes in all), are told as `custom_fields`. */
const most = { fields: 20, bytes: 2_048 };

/**
 * Returns the members of a record, as its GET shows it, that a write changes. Of custom fields, each is named, such as
 * `custom_fields.plan`.
 * @param stored the values before; it may have further columns
 * @param columns the values after
 */
export const changedMembers = (noun: EventNoun, stored: object, columns: object): string[] =>
  Object.entries(columns).flatMap(([name, value]) => {
    const before = (stored as Columns)[name];
    if (isSame(before, value)) return [];
    return name === 'custom_fields'
      ? changedFields(before as Columns, value as Columns)
      : (shownAs[noun]?.[name] ?? name);
  });

function changedFields(before: Columns, after: Columns): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const changed = [...names]
    .filter((name) => !isSame(before[name], after[name]))
    .map((name) => `custom_fields.${name}`);
  const isMuch = changed.length > most.fields || Buffer.byteLength(changed.join('')) > most.bytes;
  return isMuch ? ['custom_fields'] : changed;
}

/** Returns true if a new value equals the stored value of the column. */
export const isSame = (stored: unknown, value: unknown): boolean =>
  isDeepStrictEqual(stored, value) ||
  // The database stores objects as JSON, which has no negative zero.
  (typeof value === 'object' && value !== null && isDeepStrictEqual(stored, JSON.parse(JSON.stringify(value))));
