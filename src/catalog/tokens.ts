import type { TextMember } from '../schemas/prospects.ts';
import { wholeMembers, wordMembers } from '../schemas/prospects.ts';
import type { CatalogDocument } from './document.ts';
import { memberLetters } from './member-letters.ts';

/**
 * Returns the search token for a folded value or one of its words. All tokens of a person are in one indexed column of
 * Postgres. A missing value has the same token as an empty one.
 */
export const tokenOf = (member: TextMember, text: string | null): string => `${memberLetters[member]}:${text ?? ''}`;

/** Returns all search tokens of a person: for whole values and for single words. */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...wholeMembers.map((member) => tokenOf(member, folded[member])),
  ...wordMembers.flatMap((member) => words[member].map((word) => tokenOf(member, word))),
];
