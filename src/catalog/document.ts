import { createHash } from 'node:crypto';
import { textFields, wordFields, type TextField, type Prospect, type WordField } from '../schemas/prospects.ts';
import { fold, memoize, words } from '../text/fold.ts';
import { formerProfileKey, profileKey } from '../text/domains.ts';

/**
 * Codes that both engines store instead of field names, to save space. Do not change a code: stored catalogs contain
 * it.
 */
export const fieldCodes = {
  first_name: 'f',
  last_name: 'l',
  job_title: 't',
  job_company_name: 'n',
  job_company_industry: 'i',
  location_locality: 'c',
  location_region: 'r',
  location_country: 'y',
  location_postal_code: 'p',
} as const satisfies Record<TextField, string>;

export type FieldCode<M extends TextField> = (typeof fieldCodes)[M];

/*
 * Keys by which people of the catalog are found who are the same as somebody else: by the URL of the profile, and by each
 * e-mail address. Both engines store them: catalogs contain keys of earlier releases until `catalog reindex`.
 */

function keyOfProfile(url: string): string | undefined {
  const profile = profileKey(url);
  return profile && key('u', profile);
}

/**
 * Returns the keys under which the catalog may have stored a profile: the current key, and the key of earlier releases.
 */
export function storedKeysOfProfile(url: string): string[] {
  const known = keyOfProfile(url);
  return known === undefined ? [] : [...new Set([known, key('u', formerProfileKey(url)) ?? known])];
}

export const keyOfEmail = (email: string): string | undefined =>
  email.includes('@') ? key('e', fold(email)) : undefined;

const maxLength = 400;

function key(kind: 'u' | 'e', text: string): string | undefined {
  if (!/[\p{L}\p{N}]/u.test(text)) return undefined;
  return text.length <= maxLength ? `${kind}:${text}` : `${kind}#${createHash('sha256').update(text).digest('hex')}`;
}

const noKey = '-';

export function keysOf({
  profnet_url,
  work_email,
  emails,
}: Pick<Prospect, 'profnet_url' | 'work_email' | 'emails'>): string[] {
  const keys = [
    profnet_url === null ? undefined : keyOfProfile(profnet_url),
    ...[work_email, ...emails].map(keyOfEmail),
  ];
  const distinct = [...new Set(keys.filter((one) => one !== undefined))];
  return distinct.length > 0 ? distinct : [noKey];
}

export interface CatalogDocument {
  id: string;
  person: Omit<Prospect, '_id'>;
  folded: Record<RequiredField, string> & { location_postal_code: string | null };
  words: Record<WordField, string[]>;
  spelled: Record<TextField, string | undefined>;
  has_email: boolean;
  has_phone: boolean;
  keys: string[];
}

export type RequiredField = Exclude<TextField, 'location_postal_code'>;

/** Maximum length of a text after `fold` (UTF-16 units). Longer texts do not fit into a btree index of PostgreSQL. */
export const maxFoldedLength = 640;

export function toDocument({ _id, ...person }: Prospect): CatalogDocument {
  const folded = {} as Record<TextField, string>;
  const spelled = {} as CatalogDocument['spelled'];
  const words = {} as CatalogDocument['words'];
  for (const field of textFields) {
    const text = foldOrNull(person[field]);
    folded[field] = text?.folded ?? null!;
    spelled[field] = text?.spelled;
  }
  for (const field of wordFields) words[field] = wordsOf(foldOnce(person[field]));
  const [has_email, has_phone] = [hasEmail(person), person.mobile_phone !== null];
  return { id: _id, person, folded, spelled, words, has_email, has_phone, keys: keysOf(person) };
}

/**
 * Returns true if the e-mail fields have any text, valid or not. Do not change this function: catalogs store its
 * result.
 */
export const hasEmail = (person: Pick<Prospect, 'work_email' | 'emails'>): boolean =>
  person.work_email !== '' || person.emails.length > 0;

export const foldedOf = (person: Pick<Prospect, TextField>, field: TextField): string | null =>
  foldOrNull(person[field])?.folded ?? null;

interface Folded {
  readonly folded: string;
  readonly spelled: string | undefined;
  words?: string[];
}

/**
 * Capitalises each word of a folded text (lower case, no accents). Do not change this function: the catalog stores only
 * spellings that differ from its result.
 */
export const usualSpelling = (folded: string): string => folded.replace(firstLetters, (letter) => letter.toUpperCase());
// A fixed list of letters, so that the result does not depend on the version of Unicode.
const firstLetters = /(?<=^|[ -/:-@[-`{-~])[a-zα-ωа-џ]/g;

const foldOnce = memoize((text): Folded => {
  const folded = fold(text);
  return { folded, spelled: text === usualSpelling(folded) ? undefined : text };
});

const foldOrNull = (text: string | null): Folded | null => (text === null ? null : foldOnce(text));

const wordsOf = (text: Folded): string[] => (text.words ??= [...new Set(words(text.folded))]);

export interface Spelling {
  folded: string;
  value: string;
  people: number;
}

/**
 * A value to suggest, with all its spellings. `value` is the most frequent spelling. `people` counts the people with
 * any spelling.
 */
export interface SuggestedValue extends Spelling {
  member: TextField;
  words: string[];
}

/**
 * Returns the distinct words of a search text. An empty text gives `[]`, which matches all values. A text without
 * words, such as `'*`, gives undefined and matches no value.
 */
export function wordPatterns(search: string): string[] | undefined {
  const found = [...new Set(words(search))];
  return found.length === 0 && fold(search) !== '' ? undefined : found;
}

/**
 * Combines the spellings of each folded text (lower case, no accents) into one value. Keeps only one value in memory at
 * a time.
 * @param spellings sorted by `folded`
 */
export async function* groupSpellings(
  field: TextField,
  spellings: AsyncIterable<Spelling>,
): AsyncGenerator<SuggestedValue> {
  let best: Spelling | undefined;
  let people = 0;
  const value = (spelling: Spelling): SuggestedValue => ({
    member: field,
    ...spelling,
    people,
    words: [...new Set(words(spelling.folded))],
  });
  for await (const spelling of spellings) {
    if (best && best.folded !== spelling.folded) {
      yield value(best);
      best = undefined;
      people = 0;
    }
    people += spelling.people;
    if (!best || isMoreFrequent(spelling, best)) best = spelling;
  }
  if (best) yield value(best);
}

const isMoreFrequent = (one: Spelling, other: Spelling): boolean =>
  one.people > other.people || (one.people === other.people && compareCodePoints(one.value, other.value) < 0);

/** Compares texts by code points. JavaScript compares UTF-16 units, which sorts rare characters differently. */
const compareCodePoints = (one: string, other: string): number => Buffer.compare(Buffer.from(one), Buffer.from(other));

export async function* inBatches<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    if (batch.push(item) < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
