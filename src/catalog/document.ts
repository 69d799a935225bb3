import { fold, words } from '../fold.ts';
import { textMembers, wordMembers, type Prospect, type TextMember, type WordMember } from '../schemas/prospects.ts';

/**
 * A person as both engines keep it: what is answered, and beside it what is compared. Folding and splitting into words
 * happen here, so that the engines only compare bytes.
 */
export interface CatalogDocument {
  id: string;
  /** All of the prospect but its `_id`. */
  person: Omit<Prospect, '_id'>;
  folded: Record<TextMember, string | null>;
  words: Record<WordMember, string[]>;
  has_email: boolean;
  has_phone: boolean;
}

/** Text whose folded form is longer is not taken into the catalog: a btree of Postgres cannot index more. */
export const longestFolded = 640;

/** The document of a prospect. */
export function toDocument({ _id, ...person }: Prospect): CatalogDocument {
  return {
    id: _id,
    person,
    folded: byMember(textMembers, (member) => foldedOf(person, member)),
    words: byMember(wordMembers, (member) => wordsOnce(person[member])),
    has_email: hasEmail(person),
    has_phone: person.mobile_phone !== null,
  };
}

/** The prospect of a document. */
export const toProspect = (id: string, person: Omit<Prospect, '_id'>): Prospect => ({ _id: id, ...person });

/** Whether there is any address to write to: without one an unlock is free. */
export const hasEmail = (person: Pick<Prospect, 'work_email' | 'emails'>): boolean =>
  person.work_email !== '' || person.emails.length > 0;

/** A member's folded form; null where the person has none. */
export const foldedOf = (person: Pick<Prospect, TextMember>, member: TextMember): string | null => {
  const text = person[member];
  return text === null ? null : foldOnce(text);
};

/** Titles, companies, names and places repeat: most of a load is folded from memory. */
const foldOnce = remembered(fold);
const wordsOnce = remembered((text) => [...new Set(words(text))]);

/** The function with a bounded memory, emptied when full. */
function remembered<T>(work: (text: string) => T, most = 20_000): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const before = known.get(text);
    if (before !== undefined) return before;
    const result = work(text);
    if (text.length > 64) return result;
    if (known.size >= most) known.clear();
    known.set(text, result);
    return result;
  };
}

function byMember<M extends string, T>(members: readonly M[], value: (member: M) => T): Record<M, T> {
  const record = {} as Record<M, T>;
  for (const member of members) record[member] = value(member);
  return record;
}
