import type { TextField } from '../schemas/prospects.ts';
import { fold, words } from '../text/fold.ts';

/** A spelling, such as `ACME`, of a folded text, such as `acme`, and the number of people who have exactly it. */
export interface Spelling {
  folded: string;
  value: string;
  people: number;
}

/** All spellings of a folded text: `value` is the most frequent, `people` counts all who have any of them. */
export interface SuggestedValue extends Spelling {
  member: TextField;
  words: string[];
}

/**
 * Returns distinct folded words: empty for an empty text, which matches all values; undefined for a text without words
 * (such as `'*`), which matches none.
 */
export function wordPatterns(search: string): string[] | undefined {
  const found = [...new Set(words(search))];
  return found.length === 0 && fold(search) !== '' ? undefined : found;
}

/**
 * Combines spellings of the same folded text. Keeps only one value in memory at a time.
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

/** If equally many people have both, the first by code points is suggested. */
const isMoreFrequent = (one: Spelling, other: Spelling): boolean =>
  one.people > other.people || (one.people === other.people && compareCodePoints(one.value, other.value) < 0);

/** For `sort`. JavaScript itself compares UTF-16 units, which gives another order for rare characters. */
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
