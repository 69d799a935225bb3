import { type TextField, exactFields, wordFields } from '../../schemas/prospects.ts';
import type { CatalogDocument } from '../document.ts';
import { fieldCodes } from '../field-codes.ts';

/**
 * Returns the search token of a folded text (lower case, without accents): the code of its field, a colon, and the
 * text. Null gives the same token as an empty text.
 */
export const tokenOf = (field: TextField, text: string | null): string => `${fieldCodes[field]}:${text ?? ''}`;

/** Returns all search tokens of a person: for whole values and for single words. */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...exactFields.map((field) => tokenOf(field, folded[field])),
  ...wordFields.flatMap((field) => words[field].map((word) => tokenOf(field, word))),
];
