import { type TextField, exactFields, wordFields } from '../../schemas/prospects.ts';
import type { CatalogDocument } from '../document.ts';
import { fieldCodes } from '../field-codes.ts';

/**
 * Returns a search token: the text under which Postgres indexes a value or a word of a field. It consists of the
 * one-letter code of the field, a colon, and `text` in lower case and without accents. Null counts as an empty text.
 */
export const tokenOf = (field: TextField, text: string | null): string => `${fieldCodes[field]}:${text ?? ''}`;

/**
 * Returns the search tokens of a person. Some fields are searched as a whole: each has one token. The other fields are
 * searched by word: each word has a token.
 */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...exactFields.map((field) => tokenOf(field, folded[field])),
  ...wordFields.flatMap((field) => words[field].map((word) => tokenOf(field, word))),
];
