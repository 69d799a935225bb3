import { customKey } from '../schemas/filters.ts';
import type { Source } from './columns.ts';
import { searchedOf, type Folded, type RecordFields } from './fields.ts';
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
 * Keys in `folded` that mark a record whose `folded` and `terms` are of the source's `searchVersion`: one for this
 * version and one for each before. Older versions of this program write `folded` without the newest key. They see from
 * the other keys that a newer version has computed all that they need.
 */
export const marksOf = ({ searchVersion }: Source): string[] =>
  Array.from({ length: searchVersion }, (_, i) => (i === 0 ? mark : `${mark}${i + 1}`));

/** Key of the first version, and beginning of all others. No field has such a name. */
const mark = 'indexed';

/** Shortest text that the index can find: a trigram (UTF-16 units). */
export const minTextLength = 3;

/**
 * How much text of a record is indexed in trigrams (UTF-16 units), the shortest texts first: thousands of index entries
 * would make each write slow. Texts that `search` reads are always indexed, and do not count.
 */
export const maxIndexedText = 2_000;

/** Fields that are not text, but have a term for their value. A statement that writes `folded` also writes them. */
const ownValues: Record<Source['alias'], readonly string[]> = {
  c: ['birth_year', 'assigned_to'],
  co: [],
  p: [],
  o: [],
  a: [],
};

/** Columns that terms are computed from, beside `folded`. */
export const termColumns = ({ alias }: Source): string[] => ['external_id', 'custom_fields', ...ownValues[alias]];

/** True if a term finds the records with this value. Not for an empty text: no term stands for it. */
export const hasValueTerm = ({ alias, columns }: Source, field: string, value: FilterValue): boolean =>
  value !== '' &&
  (customKey(field) !== undefined || columns[field]?.isFolded === true || ownValues[alias].includes(field));

export const hasTextTerms = ({ columns }: Source, field: string): boolean =>
  customKey(field) !== undefined ||
  columns[field]?.isFolded === true ||
  ['external_id', 'search', 'phones'].includes(field);

export class Terms {
  readonly #alias: Source['alias'];
  readonly #seed: number;
  /**
   * Text fields that `search` reads. Always indexed. Their trigrams do not name the field, so one look-up finds a word in
   * any of them.
   */
  readonly #searched: ReadonlySet<string>;

  constructor(source: Source, customerId: string) {
    this.#alias = source.alias;
    this.#seed = hashText(source.alias === 'c' ? 17 : 19, customerId);
    this.#searched = new Set(['search', ...searchedOf(source)]);
  }

  /**
   * @param folded the record's column `folded`
   * @param record the other columns, for values that `folded` does not contain
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
   * Every record with this value in this field has the term.
   * @param value a text must be folded
   */
  ofValue(field: string, value: FilterValue): number {
    // The number 1 and the text "1" of a custom field are different values.
    const type = { string: 1, number: 2, boolean: 3 }[typeof value as 'string' | 'number' | 'boolean'];
    return finish(hashText(mix(hashText(this.#seed, field), type), String(value)));
  }

  /**
   * Returns the terms of the trigrams of `text`. A record whose field contains `text` has them all, or else the term of
   * `ofLongText`. Empty for fewer than three characters.
   */
  ofPart(field: string, text: string): number[] {
    const terms = new Set<number>();
    this.#addParts(terms, field, text);
    return [...terms];
  }

  /**
   * Returns the term of records whose text in this field is too long for trigrams. Undefined if the field's texts are
   * always indexed.
   */
  ofLongText(field: string): number | undefined {
    return this.#isSearched(field) ? undefined : finish(mix(hashText(this.#seed, field), 4));
  }

  #isSearched = (field: string): boolean => this.#searched.has(field);

  #addValue(terms: Set<number>, field: string, value: unknown): void {
    if (value !== null && value !== undefined) terms.add(this.ofValue(field, value as FilterValue));
  }

  /**
   * Adds the trigrams of the shortest texts, up to `maxIndexedText`, and the term of `ofLongText` for each longer text.
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

export const arrayLiteral = (terms: readonly number[]): string => `{${terms.join(',')}}`;

function hashText(seed: number, text: string): number {
  let hash = seed;
  for (let i = 0; i < text.length; i += 1) hash = mix(hash, text.charCodeAt(i));
  return hash;
}

/** A step of MurmurHash3 (32 bits). */
function mix(hash: number, value: number): number {
  let k = Math.imul(value, 0xcc9e2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  const h = hash ^ k;
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

function finish(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
