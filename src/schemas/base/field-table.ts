import type { Static, TObject } from '@sinclair/typebox';

/**
 * Determines operators and values of a condition. `exact`: compared with case, accents and white space. `domain`: so, too,
 * once the values are reduced to domains. `custom`: any string, number or boolean. `search`: can only be searched for
 * words. `of`: an id, or several of which one is enough.
 */
export type FieldType =
  'text' | 'exact' | 'domain' | 'integer' | 'number' | 'boolean' | 'instant' | 'uuid' | 'custom' | 'search' | 'of';

export const referenced = ['contacts', 'company', 'products', 'opportunities', 'users', 'lists', 'stages'] as const;

/** What a field of a record is, as far as its schema does not tell it. */
export interface FieldEntry {
  /** What people call it, in forms and files. */
  label: string;
  /** How filters compare it. Undefined: filters do not take it. */
  filter?: FieldType;
  /** `filters` take it, `order_by` does not. */
  isUnsorted?: true;
  /** The database has an index on customer, value and id, and the value is never null. */
  isIndexed?: true;
  /** `search` finds its words. */
  isSearched?: true;
  /** For programs, such as an id: files for people leave it out. */
  isInternal?: true;
  /** Tools of agents can write it. */
  isInTools?: true;
  type?: 'email' | 'phone';
  /** The records whose ids it holds. */
  references?: (typeof referenced)[number];
  /** How the form of a record shows it. Undefined: the form does not. */
  form?: { group: string; control?: FormControl; hint?: string };
  /**
   * Names of its column in other programs' files, divided by `|`. Case, accents, white space and punctuation do not
   * matter. Earlier names are preferred: of `Business City` and `Home City`, the first is taken.
   */
  headers?: string;
}

/** `lines`: a list of texts; `phones`: phone numbers; each on a line of its own. */
export type FormControl = 'text' | 'email' | 'url' | 'number' | 'country' | 'user' | 'lines' | 'phones' | 'company';

/**
 * The fields of a kind of records, in the order in which people read them. Some are not members of the record: those that
 * only filters or only imports have.
 */
export type FieldTable<Name extends string = string> = Readonly<Record<string, FieldEntry> & Record<Name, FieldEntry>>;

/** Returns the names of the entries that a condition holds for. */
export const namesWhere = (table: FieldTable, holds: (entry: FieldEntry) => unknown): string[] =>
  Object.keys(table).filter((name) => holds(table[name]!));

const empty: Readonly<Record<string, unknown>> = { string: '', array: [], object: {} };

/** Returns the values of these fields in a record of which nothing was given. */
export const blankOf = <Schema extends TObject, Name extends keyof Static<Schema> & string>(
  { properties }: Schema,
  names: readonly Name[],
): Pick<Static<Schema>, Name> =>
  Object.fromEntries(
    names.map((name) => {
      const types: unknown[] = [properties[name]?.['type']].flat();
      return [name, types.includes('null') ? null : empty[types[0] as string]];
    }),
  ) as Pick<Static<Schema>, Name>;
