import { type TextField, exactFields, wordFields } from '../../schemas/prospects.ts';
import type { CatalogDocument } from '../document.ts';
import { fieldCodes } from '../field-codes.ts';

/**
 * The text under which a value or word is indexed: the field's code, a colon, and the folded text. Null counts as
 * empty.
 */
export const tokenOf = (field: TextField, text: string | null): string => `${fieldCodes[field]}:${text ?? ''}`;

/** One token for each field that is searched as a whole, and for each word of the others. */
export const tokensOf = ({ folded, words }: CatalogDocument): string[] => [
  ...exactFields.map((field) => tokenOf(field, folded[field])),
  ...wordFields.flatMap((field) => words[field].map((word) => tokenOf(field, word))),
];
