import { isDeepStrictEqual } from 'node:util';
import type { EventNoun } from '../../schemas/events/types.ts';

/** The columns of a record, by name. */
type Columns = Readonly<Record<string, unknown>>;

/** Columns whose values responses show under another name. */
const shownAs: Partial<Record<EventNoun, Record<string, string>>> = { contact: { company_id: 'company' } };

/** Columns of records that are no member of their GET. They are kept, and not told. */
export const untold: ReadonlySet<string> = new Set(['prospect_id']);

/** More custom fields than this, or longer names (UTF-8 bytes in all), are told as `custom_fields`. */
const most = { fields: 20, bytes: 2_048 };

/** What a write changes of a record. */
export interface Changes {
  /** Names of members, as its GET shows them. Of custom fields, each is named, such as `custom_fields.plan`. */
  changed: string[];
  /** The changed columns. Of custom fields those that differ. */
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

/**
 * Returns what a write changes of a record, or undefined if it changes nothing.
 * @param stored the columns before; it may have further ones
 * @param columns the columns after, named like the members of the record's GET
 */
export function changesOf(noun: EventNoun, stored: object, columns: object): Changes | undefined {
  const old = stored as Columns;
  const changes: Changes = { changed: [], before: {}, after: {} };
  for (const [name, value] of Object.entries(columns)) {
    if (isSame(old[name], value)) continue;
    if (name === 'custom_fields') {
      const fields = changedFields(old[name] as Columns, value as Columns);
      changes.changed.push(...namesOf(fields));
      changes.before[name] = pick(old[name] as Columns, fields);
      changes.after[name] = pick(value as Columns, fields);
    } else {
      if (!untold.has(name)) changes.changed.push(shownAs[noun]?.[name] ?? name);
      changes.before[name] = old[name];
      changes.after[name] = value;
    }
  }
  return changes.changed.length > 0 ? changes : undefined;
}

const changedFields = (before: Columns, after: Columns): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => !isSame(before[name], after[name]));

const pick = (fields: Columns, names: readonly string[]): Columns =>
  Object.fromEntries(names.filter((name) => Object.hasOwn(fields, name)).map((name) => [name, fields[name]]));

function namesOf(fields: readonly string[]): string[] {
  const names = fields.map((name) => `custom_fields.${name}`);
  const isMuch = names.length > most.fields || Buffer.byteLength(names.join('')) > most.bytes;
  return isMuch ? ['custom_fields'] : names;
}

/** Returns true if a new value equals the stored value of the column. */
export const isSame = (stored: unknown, value: unknown): boolean =>
  isDeepStrictEqual(stored, value) ||
  // The database stores objects as JSON, which has no negative zero.
  (typeof value === 'object' && value !== null && isDeepStrictEqual(stored, JSON.parse(JSON.stringify(value))));
