import { fold, words } from '../fold.ts';
import type { Prospect, TextMember, WordMember } from '../schemas/prospects.ts';
import { remembered } from './remembered.ts';

/**
 * A person as both engines keep it: what is answered, and beside it what is compared. Folding and splitting into words
 * happen here, so that the engines only compare bytes.
 */
export interface CatalogDocument {
  id: string;
  /** All of the prospect but its `_id`. */
  person: Omit<Prospect, '_id'>;
  folded: Record<RequiredMember, string> & { location_postal_code: string | null };
  words: Record<WordMember, string[]>;
  /** As it was given, where that is not the usual spelling of its folded form. */
  spelled: Record<TextMember, string | undefined>;
  has_email: boolean;
  has_phone: boolean;
}

/** Every person has these, be they empty. */
export type RequiredMember = Exclude<TextMember, 'location_postal_code'>;

/** Text whose folded form is longer is not taken into the catalog: a btree of Postgres cannot index more. */
export const longestFolded = 640;

/** The document of a prospect. A load makes millions: literals, and one look into the memory a member. */
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

/** The prospect of a document. */
export const toProspect = (id: string, person: Omit<Prospect, '_id'>): Prospect => ({ _id: id, ...person });

/** Whether there is any address to write to: without one an unlock is free. */
export const hasEmail = (person: Pick<Prospect, 'work_email' | 'emails'>): boolean =>
  person.work_email !== '' || person.emails.length > 0;

/** A member's folded form; null where the person has none. */
export const foldedOf = (person: Pick<Prospect, TextMember>, member: TextMember): string | null => {
  const text = person[member];
  return text === null ? null : foldOnce(text).folded;
};

/** A text's folded form; the text where that is not the form's usual spelling; its distinct words once they were asked for. */
interface Folded {
  readonly folded: string;
  readonly spelled: string | undefined;
  words?: string[];
}

/**
 * How most who write a text of this folded form write it: each word with a capital. What is spelled so is kept in its
 * folded form alone, so this must never change, not even with a newer Unicode: it knows the letters of three alphabets and
 * what stands before a word in ASCII, and leaves all else as it is.
 */
export const usualSpelling = (folded: string): string => folded.replace(firstLetters, (letter) => letter.toUpperCase());
const firstLetters = /(?<=^|[ -/:-@[-`{-~])[a-zα-ωа-џ]/g;

/** Titles, companies, names and places repeat: most of a load is folded from memory. */
const foldOnce = remembered((text): Folded => {
  const folded = fold(text);
  return { folded, spelled: text === usualSpelling(folded) ? undefined : text };
});

const wordsOf = (text: Folded): string[] => (text.words ??= [...new Set(words(text.folded))]);
