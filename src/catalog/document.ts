import type { Prospect, TextField, WordField } from '../schemas/prospects.ts';
import { fold, words } from '../text/fold.ts';
import { memoize } from './memoize.ts';

/**
 * A person in the form that the catalog stores. In addition to the person's data, it contains the texts that searches
 * use: in lower case, without accents, and split into words.
 */
export interface CatalogDocument {
  id: string;
  /** All fields of the prospect except `_id`. */
  person: Omit<Prospect, '_id'>;
  /** Each text in lower case and without accents, as `fold` returns it. */
  folded: Record<RequiredField, string> & { location_postal_code: string | null };
  /** For each text field that is searched by word: its distinct words, in lower case and without accents. */
  words: Record<WordField, string[]>;
  /**
   * The original spelling of each text. Undefined if it equals the text in `folded` with the first letter of each word
   * capitalised.
   */
  spelled: Record<TextField, string | undefined>;
  has_email: boolean;
  has_phone: boolean;
}

/**
 * The name of a text field that every person has, perhaps as an empty text. Only the postal code may be missing (null).
 */
export type RequiredField = Exclude<TextField, 'location_postal_code'>;

/**
 * The maximum length of a text after its conversion to lower case without accents (UTF-16 units). Imports reject longer
 * texts, because they do not fit into a btree index of Postgres.
 */
export const maxFoldedLength = 640;

/**
 * Converts a prospect to the document that the catalog stores. It must be fast, because an import calls it for every
 * person.
 */
export function toDocument({ _id, ...person }: Prospect): CatalogDocument {
  const { location_postal_code: code } = person;
  const [first, last] = [foldOnce(person.first_name), foldOnce(person.last_name)];
  const title = foldOnce(person.job_title);
  const company = foldOnce(person.job_company_name);
  const industry = foldOnce(person.job_company_industry);
  const locality = foldOnce(person.location_locality);
  const region = foldOnce(person.location_region);
  const country = foldOnce(person.location_country);
  const postalCode = code === null ? undefined : foldOnce(code);
  return {
    id: _id,
    person,
    folded: {
      first_name: first.folded,
      last_name: last.folded,
      job_title: title.folded,
      job_company_name: company.folded,
      job_company_industry: industry.folded,
      location_locality: locality.folded,
      location_region: region.folded,
      location_country: country.folded,
      location_postal_code: postalCode?.folded ?? null,
    },
    spelled: {
      first_name: first.spelled,
      last_name: last.spelled,
      job_title: title.spelled,
      job_company_name: company.spelled,
      job_company_industry: industry.spelled,
      location_locality: locality.spelled,
      location_region: region.spelled,
      location_country: country.spelled,
      location_postal_code: postalCode?.spelled,
    },
    words: {
      job_title: wordsOf(title),
      job_company_name: wordsOf(company),
      job_company_industry: wordsOf(industry),
    },
    has_email: hasEmail(person),
    has_phone: person.mobile_phone !== null,
  };
}

/** Returns a stored person as a prospect, with its id in `_id`. */
export const toProspect = (id: string, person: Omit<Prospect, '_id'>): Prospect => ({ _id: id, ...person });

// The catalog stores the result, so a change of this function would contradict the people who are stored already.
/** Returns whether a prospect has a text in a field for e-mail addresses, valid or not. */
export const hasEmail = (person: Pick<Prospect, 'work_email' | 'emails'>): boolean =>
  person.work_email !== '' || person.emails.length > 0;

/** Returns a text field of a person in lower case and without accents, or null if the field is null. */
export const foldedOf = (person: Pick<Prospect, TextField>, field: TextField): string | null => {
  const text = person[field];
  return text === null ? null : foldOnce(text).folded;
};

/** A folded text (lower case, without accents), its original spelling and its words. */
interface Folded {
  readonly folded: string;
  /**
   * The original spelling of the text. Undefined if it can be computed from `folded`, because the only difference is a
   * capital letter at the start of each word.
   */
  readonly spelled: string | undefined;
  /** The distinct words of `folded`. Undefined until they are first needed. */
  words?: string[];
}

// The results of this function must never change: the catalog does not store spellings that it can compute.
/** Returns a lower-case text with the first letter of each word capitalised. */
export const usualSpelling = (folded: string): string => folded.replace(firstLetters, (letter) => letter.toUpperCase());
// A fixed list of letters, so that the result does not depend on the version of Unicode.
const firstLetters = /(?<=^|[ -/:-@[-`{-~])[a-zα-ωа-џ]/g;

/**
 * Returns a text in lower case and without accents, together with its original spelling. Caches the results, because
 * names, titles and places repeat in an import.
 */
const foldOnce = memoize((text): Folded => {
  const folded = fold(text);
  return { folded, spelled: text === usualSpelling(folded) ? undefined : text };
});

const wordsOf = (text: Folded): string[] => (text.words ??= [...new Set(words(text.folded))]);
