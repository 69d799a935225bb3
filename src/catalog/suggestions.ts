import { fold, words } from '../fold.ts';
import type { TextMember } from '../schemas/prospects.ts';

/** How many people have a member spelled so. */
export interface Spelling {
  folded: string;
  value: string;
  people: number;
}

/** A value to suggest: all spellings of one folded form, shown as the most frequent of them. */
export interface SuggestedValue extends Spelling {
  member: TextMember;
  words: string[];
}

/**
 * The words that values must have words beginning with; none asks for no word in particular. Undefined when the text has
 * no word to look for, though it is not empty.
 */
export function wordPatterns(search: string): string[] | undefined {
  const found = [...new Set(words(search))];
  return found.length === 0 && fold(search) !== '' ? undefined : found;
}

/** Gathers spellings, which come in order of their folded form, into values; nothing but the current one is kept. */
export async function* gatherValues(
  member: TextMember,
  spellings: AsyncIterable<Spelling>,
): AsyncGenerator<SuggestedValue> {
  let best: Spelling | undefined;
  let people = 0;
  const value = (spelling: Spelling): SuggestedValue => ({
    member,
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

/** Of spellings as frequent as each other the first in code point order is shown. */
const isMoreFrequent = (one: Spelling, other: Spelling): boolean =>
  one.people > other.people || (one.people === other.people && compareCodePoints(one.value, other.value) < 0);

/** Code point by code point, as UTF-8 bytes compare; JavaScript's own comparison goes by UTF-16 units. */
export const compareCodePoints = (one: string, other: string): number =>
  Buffer.compare(Buffer.from(one), Buffer.from(other));

/** Puts what comes one by one into arrays of a size. */
export async function* inBatches<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    if (batch.push(item) < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
