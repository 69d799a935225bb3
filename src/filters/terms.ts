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
 * Key in the database column `folded`. If a record has it, its column `terms` is up to date. An older version of this
 * program that changes a record writes `folded` without the key, and leaves outdated terms.
 */
export const indexedKey = 'indexed';

/**
 * Length of a trigram (UTF-16 units): the shortest part of a text that the index can find. A shorter text has no
 * trigrams.
 */
export const minTextLength = 3;

/**
 * Maximum length of all texts of a record that have trigrams (UTF-16 units), apart from the texts of the filter `search`.
 * The shortest texts have them. Thousands of index entries would make each write of a record slow.
 */
export const maxIndexedText = 2_000;

/**
 * Fields that are not text but have a search term (hash in the index) for their value. They are always written together
 * with `folded`, which contains the texts of the record.
 */
const ownValues: Record<Source['alias'], readonly string[]> = { c: ['birth_year', 'assigned_to'], co: [] };

/** Returns the columns of a record, without `folded`, from which its terms are computed. */
export const termColumns = ({ alias }: Source): string[] => ['external_id', 'custom_fields', ...ownValues[alias]];

/**
 * Text fields that the filter `search` looks at. They share one set of trigrams, so that one look-up finds a word in
 * any of them. They always have trigrams.
 */
const searchedTexts: Record<Source['alias'], ReadonlySet<string>> = {
  c: new Set(['search', 'first_name', 'middle_name', 'last_name', 'work_email', 'personal_email']),
  co: new Set(['company_name']),
};

/**
 * Returns whether records with this value in this field have a term (hash in the index) for it. An empty text has none.
 */
export const hasValueTerm = ({ alias, columns }: Source, field: string, value: FilterValue): boolean =>
  value !== '' &&
  (customKey(field) !== undefined || columns[field]?.isFolded === true || ownValues[alias].includes(field));

/** Returns whether records have terms (hashes in the index) for the parts of this field's text. */
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
   * Returns all terms of a record.
   * @param folded the record's column `folded`, which contains its texts
   * @param record the record's other columns, for the values that `folded` does not contain
   */
  ofRecord(folded: Folded, record: RecordFields): number[] {
    const terms = new Set<number>();
    const others: [field: string, text: string][] = [];
    for (const field in folded) {
      if (field === indexedKey) continue;
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
   * Returns the term that a record has if the field has this value.
   * @param value a text must be folded (converted to its form for comparisons)
   */
  ofValue(field: string, value: FilterValue): number {
    // The number 1 and the text "1" of a custom field are different values.
    const type = { string: 1, number: 2, boolean: 3 }[typeof value as 'string' | 'number' | 'boolean'];
    return finish(hashText(mix(hashText(this.#seed, field), type), String(value)));
  }

  /**
   * Returns the terms that a record has if the field's text contains `text`, or instead the term of `ofLongText`. There
   * are none if `text` is too short.
   */
  ofPart(field: string, text: string): number[] {
    const terms = new Set<number>();
    this.#addParts(terms, field, text);
    return [...terms];
  }

  /**
   * Returns the term of records whose text in this field has no trigrams, because it is too long. Returns undefined if
   * all texts of the field have trigrams.
   */
  ofLongText(field: string): number | undefined {
    return this.#isSearched(field) ? undefined : finish(mix(hashText(this.#seed, field), 4));
  }

  #isSearched = (field: string): boolean => searchedTexts[this.#alias].has(field);

  #addValue(terms: Set<number>, field: string, value: unknown): void {
    if (value !== null && value !== undefined) terms.add(this.ofValue(field, value as FilterValue));
  }

  /** Adds the trigrams of the shortest texts, up to `maxIndexedText` in all, and for each other text its own term. */
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
