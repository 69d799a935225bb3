import type { TextMember } from '../schemas/prospects.ts';
import { wholeMembers, wordMembers } from '../schemas/prospects.ts';
import type { CatalogDocument } from './document.ts';

/** The letter that a token of Postgres's one index of texts begins with: which member it is of. */
const letters: Record<TextMember, string> = {
  first_name: 'f',
  last_name: 'l',
  job_title: 't',
  job_company_name: 'n',
  job_company_industry: 'i',
  location_locality: 'c',
  location_region: 'r',
  location_country: 'y',
  location_postal_code: 'p',
};

/** A folded value, or a word of one, as a token of its member; a missing value is as an empty one. */
export const tokenOf = (member: TextMember, text: string | null): string => `${letters[member]}:${text ?? ''}`;

/** All that a person can be found by. */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...wholeMembers.map((member) => tokenOf(member, folded[member])),
  ...wordMembers.flatMap((member) => words[member].map((word) => tokenOf(member, word))),
];
