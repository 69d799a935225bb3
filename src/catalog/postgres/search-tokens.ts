import { type TextField, exactFields, wordFields } from '../../schemas/prospects.ts';
import type { CatalogDocument } from '../document.ts';
import { fieldCodes } from '../field-codes.ts';

/**
 * Returns the text under which Postgres indexes a value or a word of a text field: the one-letter code of the field, a
 * colon, and `text` (in lower case, without accents). Null is treated as an empty text.
 */
export const tokenOf = (field: TextField, text: string | null): string => `${fieldCodes[field]}:${text ?? ''}`;

/**
 * Returns the search tokens of a person: one for each field that is searched as a whole, and one for each word of the
 * fields that are searched by word.
 */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...exactFields.map((field) => tokenOf(field, folded[field])),
  ...wordFields.flatMap((field) => words[field].map((word) => tokenOf(field, word))),
];
