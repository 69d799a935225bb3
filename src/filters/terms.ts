import { customKey } from '../schemas/filters.ts';
import type { Source } from './columns.ts';
import type { Folded, RecordFields } from './fields.ts';
import type { FilterValue } from './tree.ts';

/*
 * The search terms of a record are 32-bit hashes in the database column `terms`, with one GIN index for all customers:
 * - one term for each field and value, for equality;
 * - one term for each field and three consecutive UTF-16 units of its text (a trigram), for parts of texts;
 * - one term for each field whose text is too long to have trigrams.
 * Each hash includes the customer, so a customer's search never reads the index entries of another customer. Different
 * values can have the same hash. So terms only select candidates, and the filter's exact condition decides.
 */

/**
 * Returns the keys in the JSON column `folded` that mark a record whose columns `folded` and `terms` are of the version
 * `searchVersion` of its source: one key for this version and one for each version before. Older versions of this
 * program write `folded` without the newest key. They see from the other keys that a record of a newer version has all
 * that they need, so they do not compute it again.
 */
export const marksOf = ({ searchVersion }: Source): string[] =>
  Array.from({ length: searchVersion }, (_, i) => (i === 0 ? mark : `${mark}${i + 1}`));

/** The key of the first version, and the beginning of all others. No field has such a name. */
const mark = 'indexed';

/**
 * Minimum length of a text that the index can find (UTF-16 units). It is the length of a trigram, the unit in which
 * texts are indexed.
 */
export const minTextLength = 3;

/**
 * Maximum total length of the texts of one record that are indexed in trigrams (UTF-16 units). If the texts are longer
 * in total, only the shortest are indexed. Texts that the filter `search` reads are always indexed, and do not count.
 */
// Thousands of index entries would make each write of a record slow.
export const maxIndexedText = 2_000;

/**
 * Names of the fields that are not text, but have a search term (hash in the index) for their value. A statement that
 * writes the column `folded` also writes these fields.
 */
const ownValues: Record<Source['alias'], readonly string[]> = { c: ['birth_year', 'assigned_to'], co: [] };

/**
 * Returns the names of columns from which the search terms of a record (hashes in the index) are computed. The column
 * `folded`, which has the searchable texts in lower case, is used too, but not returned.
 */
export const termColumns = ({ alias }: Source): string[] => ['external_id', 'custom_fields', ...ownValues[alias]];

/**
 * Names of the text fields that the filter `search` reads. The trigrams of these fields are not distinguished by field,
 * so one look-up finds a word in any of them. These texts are always indexed.
 */
const searchedTexts: Record<Source['alias'], ReadonlySet<string>> = {
  c: new Set(['search', 'first_name', 'middle_name', 'last_name', 'work_email', 'personal_email']),
  co: new Set(['company_name']),
};

/**
 * Returns true if records with this value in this field can be found by a search term, a hash that the index contains.
 * Returns false for an empty text: no term stands for it.
 */
export const hasValueTerm = ({ alias, columns }: Source, field: string, value: FilterValue): boolean =>
  value !== '' &&
  (customKey(field) !== undefined || columns[field]?.isFolded === true || ownValues[alias].includes(field));

/** Returns true if the index contains search terms (hashes) for the parts of this field's text. */
export const hasTextTerms = ({ columns }: Source, field: string): boolean =>
  customKey(field) !== undefined || columns[field]?.isFolded === true || ['external_id', 'search'].includes(field);

/** Computes the search terms (hashes for the index) of one customer's contacts or companies. */
export class Terms {
  readonly #alias: Source['alias'];
  readonly #seed: number;

  constructor({ alias }: Source, customerId: string) {
    this.#alias = alias;
    this.#seed = hashText(alias === 'c' ? 17 : 19, customerId);
  }

  /**
   * Returns all search terms (hashes) of a record.
   * @param folded the record's column `folded`, which contains its texts
   * @param record the record's other columns, for the values that `folded` does not contain
   */
  ofRecord(folded: Folded, record: RecordFields): number[] {
    const terms = new Set<number>();
    const others: [field: string, text: string][] = [];
    for (const field in folded) {
      if (field.startsWith(mark)) continue;
      const text = folded[field]!;
      if (text !== '') terms.add(this.ofValue(field, text));
      if (this.#isSearched(field)) this.#addParts(terms, field, text);
      else others.push([field, text]);
    }
    const { external_id, custom_fields } = record;
    if (typeof external_id === 'string') others.push(['external_id', external_id]);
    this.#addPartsWithin(terms, others);
    for (const field of ownValues[this.#alias]) this.#addValue(terms, field, record[field]);
    for (const [key, value] of Object.entries((custom_fields ?? {}) as RecordFields))
      if (typeof value !== 'string') this.#addValue(terms, `custom_fields.${key}`, value);
    return [...terms];
  }

  /**
   * Returns the search term (hash) of a field's value. Every record with this value in this field has the term.
   * @param value the value; a text must be in lower case without accents
   */
  ofValue(field: string, value: FilterValue): number {
    // The number 1 and the text "1" of a custom field are different values.
    const type = { string: 1, number: 2, boolean: 3 }[typeof value as 'string' | 'number' | 'boolean'];
    return finish(hashText(mix(hashText(this.#seed, field), type), String(value)));
  }

  /**
   * Returns the search terms (hashes) of the trigrams of `text`. A record whose field contains `text` has all these
   * terms, or instead the term of `ofLongText`. Returns an empty array if `text` has fewer than three characters.
   */
  ofPart(field: string, text: string): number[] {
    const terms = new Set<number>();
    this.#addParts(terms, field, text);
    return [...terms];
  }

  /**
   * Returns the search term (hash) of records whose text in this field is too long to be indexed in trigrams. Returns
   * undefined if the texts of this field are always indexed.
   */
  ofLongText(field: string): number | undefined {
    return this.#isSearched(field) ? undefined : finish(mix(hashText(this.#seed, field), 4));
  }

  #isSearched = (field: string): boolean => searchedTexts[this.#alias].has(field);

  #addValue(terms: Set<number>, field: string, value: unknown): void {
    if (value !== null && value !== undefined) terms.add(this.ofValue(field, value as FilterValue));
  }

  /**
   * Adds the trigrams of the shortest texts, up to a total length of `maxIndexedText`. For each longer text, adds the
   * term of `ofLongText` instead.
   */
  #addPartsWithin(terms: Set<number>, texts: [field: string, text: string][]): void {
    const total = texts.reduce((length, [, text]) => length + text.length, 0);
    const shortestFirst = total > maxIndexedText ? texts.sort(([, a], [, b]) => a.length - b.length) : texts;
    let left = maxIndexedText;
    for (const [field, text] of shortestFirst) {
      left -= text.length;
      if (left >= 0) this.#addParts(terms, field, text);
      else terms.add(this.ofLongText(field)!);
    }
  }

  #addParts(terms: Set<number>, field: string, text: string): void {
    if (text.length < minTextLength) return;
    const seed = hashText(this.#seed, this.#isSearched(field) ? 'search' : field);
    for (let i = minTextLength - 1; i < text.length; i += 1) {
      const pair = text.charCodeAt(i - 2) | (text.charCodeAt(i - 1) << 16);
      terms.add(finish(mix(mix(seed, pair), text.charCodeAt(i))));
    }
  }
}

/** Formats terms as a PostgreSQL array literal, for a parameter of the type `integer[]`. */
export const arrayLiteral = (terms: readonly number[]): string => `{${terms.join(',')}}`;

function hashText(seed: number, text: string): number {
  let hash = seed;
  for (let i = 0; i < text.length; i += 1) hash = mix(hash, text.charCodeAt(i));
  return hash;
}

/** One step of the hash function MurmurHash3 (32 bits). */
function mix(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = hash ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

/** The last step of MurmurHash3. */
function finish(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
