import type { TextMember } from '../schemas/prospects.ts';
import { wholeMembers, wordMembers } from '../schemas/prospects.ts';
import type { CatalogDocument } from './document.ts';
import { memberLetters } from './member-letters.ts';

/** A folded value, or a word of one, as a token of Postgres's one index of texts; a missing value is as an empty one. */
export const tokenOf = (member: TextMember, text: string | null): string => `${memberLetters[member]}:${text ?? ''}`;

/** All that a person can be found by. */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...wholeMembers.map((member) => tokenOf(member, folded[member])),
  ...wordMembers.flatMap((member) => words[member].map((word) => tokenOf(member, word))),
];
