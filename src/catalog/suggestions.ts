import type { TextField } from '../schemas/prospects.ts';
import { fold, words } from '../text/fold.ts';

/**
 * One spelling of a text field's value, for example `ACME` for the folded form `acme`, and the number of people who
 * have exactly this spelling.
 */
export interface Spelling {
  folded: string;
  value: string;
  people: number;
}

/**
 * A value that the service suggests for a text field. It counts all spellings with the same folded form (lower case,
 * without accents), and shows the most frequent spelling.
 */
export interface SuggestedValue extends Spelling {
  member: TextField;
  words: string[];
}

/**
 * Splits a search text into folded words (lower case, without accents). A suggested value matches if each
 * of them is the beginning of one of the value's words. Returns an empty array for an empty text, which matches every value. Returns
 * undefined for a text without words (`"'*"`), which matches none.
 */
export function wordPatterns(search: string): string[] | undefined {
  const found = [...new Set(words(search))];
  return found.length === 0 && fold(search) !== '' ? undefined : found;
}

/**
 * Groups spellings by folded form (lower case, without accents) into suggested values. Holds only the current group in
 * memory.
 * @param spellings sorted by folded form
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
 * Returns whether `one` is the better spelling to show: it is more frequent than `other`, or as frequent and earlier in
 * code point order.
 */
const isMoreFrequent = (one: Spelling, other: Spelling): boolean =>
  one.people > other.people || (one.people === other.people && compareCodePoints(one.value, other.value) < 0);

/**
 * Compares two texts by Unicode code points, for sorting. JavaScript itself compares UTF-16 units, which gives another
 * order for rare characters.
 */
export const compareCodePoints = (one: string, other: string): number =>
  Buffer.compare(Buffer.from(one), Buffer.from(other));

/** Groups items into arrays of `size` items. The last array may be shorter. */
export async function* inBatches<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    if (batch.push(item) < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
