import type { Prospect, TextField, WordField } from '../schemas/prospects.ts';
import { fold, words } from '../text/fold.ts';
import { memoize } from './memoize.ts';

/**
 * A person in the form that both engines store: the fields that are returned, and the texts that are compared. Texts
 * are folded and split into words here, so the engines only compare bytes and cannot differ.
 */
export interface CatalogDocument {
  id: string;
  /** All fields of the prospect except `_id`. */
  person: Omit<Prospect, '_id'>;
  /** Each text in its folded form: without case and accents, as `fold` returns it. */
  folded: Record<RequiredField, string> & { location_postal_code: string | null };
  /** The distinct folded words of each text that is searched by word. */
  words: Record<WordField, string[]>;
  /** Each text as it was imported, but undefined if it equals `usualSpelling` of its folded form. */
  spelled: Record<TextField, string | undefined>;
  has_email: boolean;
  has_phone: boolean;
}

/** A text field that every person has. It may be empty. */
export type RequiredField = Exclude<TextField, 'location_postal_code'>;

/**
 * The maximum length of a folded text (UTF-16 units). Imports reject longer ones: a btree index of Postgres cannot hold
 * them.
 */
export const maxFoldedLength = 640;

/**
 * Converts a prospect to the document that the engines store. An import calls this millions of times: object literals
 * and one cache lookup for each field keep it fast.
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

/** Converts a stored person back to a prospect. */
export const toProspect = (id: string, person: Omit<Prospect, '_id'>): Prospect => ({ _id: id, ...person });

/** Returns whether a prospect has an e-mail address. Unlocking a prospect without one is free. */
export const hasEmail = (person: Pick<Prospect, 'work_email' | 'emails'>): boolean =>
  person.work_email !== '' || person.emails.length > 0;

/** Returns the folded form of a person's text field, or null if the field is null. */
export const foldedOf = (person: Pick<Prospect, TextField>, field: TextField): string | null => {
  const text = person[field];
  return text === null ? null : foldOnce(text).folded;
};

/** A text with its derived forms. */
interface Folded {
  readonly folded: string;
  /** The text itself, but undefined if it equals the usual spelling of the folded form. */
  readonly spelled: string | undefined;
  /** The distinct words. Computed at the first use. */
  words?: string[];
}

/**
 * Returns the most likely spelling of a folded text: each word with a capital letter. Catalogs store a text spelled
 * like this only in its folded form. So this function must never change, not even with a newer version of Unicode. That
 * is why it has a fixed list: the letters of three alphabets and the ASCII characters before a word. It keeps all other
 * characters.
 */
export const usualSpelling = (folded: string): string => folded.replace(firstLetters, (letter) => letter.toUpperCase());
const firstLetters = /(?<=^|[ -/:-@[-`{-~])[a-zα-ωа-џ]/g;

/**
 * Folds a text, with a cache. Titles, companies, names and places repeat, so most texts of an import are found there.
 */
const foldOnce = memoize((text): Folded => {
  const folded = fold(text);
  return { folded, spelled: text === usualSpelling(folded) ? undefined : text };
});

const wordsOf = (text: Folded): string[] => (text.words ??= [...new Set(words(text.folded))]);
