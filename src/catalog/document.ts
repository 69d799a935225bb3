import type { Prospect, TextField, WordField } from '../schemas/prospects.ts';
import { fold, words } from '../text/fold.ts';
import { keysOf } from './matching/match-keys.ts';
import { memoize } from './memoize.ts';

/** A person as the catalog stores it, with the texts that searches use. */
export interface CatalogDocument {
  id: string;
  person: Omit<Prospect, '_id'>;
  folded: Record<RequiredField, string> & { location_postal_code: string | null };
  /** Distinct folded words of each field that is searched by word. */
  words: Record<WordField, string[]>;
  /** The original spelling. Undefined if it is the `usualSpelling` of the folded text. */
  spelled: Record<TextField, string | undefined>;
  has_email: boolean;
  has_phone: boolean;
  /** By which the person is found as the same as somebody else. */
  keys: string[];
}

/** Texts that every person has. They can be empty. Only the postal code can be null. */
export type RequiredField = Exclude<TextField, 'location_postal_code'>;

/** Maximum length of a folded text (UTF-16 units). Longer ones do not fit into a btree index of PostgreSQL. */
export const maxFoldedLength = 640;

/** Must be fast: an import calls it for every person. */
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
    keys: keysOf(person),
  };
}

export const toProspect = (id: string, person: Omit<Prospect, '_id'>): Prospect => ({ _id: id, ...person });

/** Whether there is text for e-mail addresses, valid or not. Catalogs store the result: do not change this function. */
export const hasEmail = (person: Pick<Prospect, 'work_email' | 'emails'>): boolean =>
  person.work_email !== '' || person.emails.length > 0;

export const foldedOf = (person: Pick<Prospect, TextField>, field: TextField): string | null => {
  const text = person[field];
  return text === null ? null : foldOnce(text).folded;
};

interface Folded {
  readonly folded: string;
  /** Undefined if it can be computed from `folded`. */
  readonly spelled: string | undefined;
  /** Distinct. Undefined until they are first needed. */
  words?: string[];
}

/**
 * Capitalises each word of a folded text. Must never change: the catalog does not store spellings that it can compute.
 */
export const usualSpelling = (folded: string): string => folded.replace(firstLetters, (letter) => letter.toUpperCase());
// A fixed list of letters, so that the result does not depend on the version of Unicode.
const firstLetters = /(?<=^|[ -/:-@[-`{-~])[a-zα-ωа-џ]/g;

/** Cached, because names, titles and places repeat in an import. */
const foldOnce = memoize((text): Folded => {
  const folded = fold(text);
  return { folded, spelled: text === usualSpelling(folded) ? undefined : text };
});

const wordsOf = (text: Folded): string[] => (text.words ??= [...new Set(words(text.folded))]);
