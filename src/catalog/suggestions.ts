import type { TextField } from '../schemas/prospects.ts';
import { fold, words } from '../text/fold.ts';

/**
 * One spelling of a text, such as `ACME`, and the number of people who have exactly this spelling. `folded` is the text
 * in lower case and without accents, such as `acme`.
 */
export interface Spelling {
  folded: string;
  value: string;
  people: number;
}

/**
 * A suggested value of a text field. It combines all spellings that differ only in case or accents: `value` is the most
 * frequent of them, and `people` counts the people who have any of them.
 */
export interface SuggestedValue extends Spelling {
  member: TextField;
  words: string[];
}

/**
 * Splits a search text into its distinct words, in lower case and without accents.
 * @returns the words. An empty array means that the search text is empty, so all suggested values match. Undefined
 *   means that the search text has characters but no words (such as `'*`), so no value matches.
 */
export function wordPatterns(search: string): string[] | undefined {
  const found = [...new Set(words(search))];
  return found.length === 0 && fold(search) !== '' ? undefined : found;
}

/**
 * Yields the suggested values of a text field. Each combines the spellings that differ only in case or accents. Keeps
 * only one value in memory at a time.
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

/**
 * Returns true if the spelling `one` is suggested instead of the spelling `other`: more people have it, or equally many
 * people have it and it is first in the order of code points.
 */
const isMoreFrequent = (one: Spelling, other: Spelling): boolean =>
  one.people > other.people || (one.people === other.people && compareCodePoints(one.value, other.value) < 0);

/**
 * Compares two texts by Unicode code points, for `sort`. JavaScript itself compares UTF-16 units, which gives another
 * order for rare characters.
 */
export const compareCodePoints = (one: string, other: string): number =>
  Buffer.compare(Buffer.from(one), Buffer.from(other));

/** Yields the items in arrays of `size` items. The last array may be shorter. */
export async function* inBatches<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    if (batch.push(item) < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
