import { isEmailAddress } from '../schemas/formats.ts';
import { domainOf } from '../text/domains.ts';
import { trimText } from '../text/fold.ts';
import { countryCodes, type CountryCodes, phoneReader, type PhoneNumber, type PhoneReader } from './phones.ts';

/** The message says what is wrong with a cell. */
export class InvalidCell extends Error {}

/**
 * What a column contains, for reading it as people write it.
 *
 * - `text`: any text.
 * - `name`: a name, in which `-` or `n/a` is not an empty value.
 * - `country`: the name of a country in any language, or its code.
 * - `year`: a year, or a date with it.
 * - `email`, `emails`: addresses, also as `Ada <ada@example.com>` or `mailto:ada@example.com`.
 * - `domain`: a host name, or a web address with it.
 * - `url`: a web address, also without `https://`.
 * - `phone`, `phones`: phone numbers in any usual form.
 * - `full name`: the name of a person, which becomes a first and a last name.
 */
export type ValueKind =
  'text' | 'name' | 'full name' | 'country' | 'year' | 'email' | 'emails' | 'domain' | 'url' | 'phone' | 'phones';

/** Reads the values of cells. */
export class ValueReader {
  readonly #codeOf: CountryCodes;
  readonly #phones: PhoneReader;

  private constructor(codeOf: CountryCodes, phones: PhoneReader) {
    this.#codeOf = codeOf;
    this.#phones = phones;
  }

  static async load(): Promise<ValueReader> {
    return new ValueReader(...(await Promise.all([countryCodes(), phoneReader()])));
  }

  isCountry(text: string): boolean {
    return this.#codeOf(text) !== '';
  }

  /** @throws InvalidCell */
  country(text: string): string {
    const code = this.#codeOf(text);
    if (code === '') throw new InvalidCell(`${quoted(text)} is not a country (a name, or a code such as DE)`);
    return code;
  }

  /**
   * @param country the record's country, or `""`
   * @returns several for a text such as `030 901820, 0151 12345678`, and none if the text is not a phone number
   */
  phones(text: string, country: string): PhoneNumber[] {
    return this.#phones.read(text, country);
  }

  /** Returns a number as text. Undefined: the text is none. */
  phoneText(text: string, country: string): string | undefined {
    return this.#phones.readText(text, country);
  }
}

const longestShown = 100;

/** Shows a value in a message. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > longestShown ? `${text.slice(0, longestShown - 1)}…` : text);

const nothing = new Set(['n/a', 'n.a.', '#nv', 'k.a.', 'k. a.', 'keine angabe', 'null', 'unspecified']);

/** Dashes or question marks, such as `--`. */
const noWord = /^(?:\p{Pd}+|\?+)$/u;

/** What spreadsheets show for a formula without a result, such as `#N/A` and `#REF!`, in their languages. */
const formulaError = /^#(?:\p{L}\/\p{L}|[¡¿]?\p{Lu}[\p{Lu}\d/]*[!?])$/u;

/** How Outlook, databases and spreadsheets write a date that is not given, such as `0/0/00`. */
const noDate = /^0{1,4}([./-])0{1,2}\1(?:0{1,2}|0{4})$/;

/** True for what people and programs write into a cell without a value. */
export const isNothing = (text: string): boolean =>
  text.length <= longestNothing &&
  (nothing.has(text.toLowerCase()) || noWord.test(text) || noDate.test(text) || formulaError.test(text));

const longestNothing = 12;

// Of a date as people write it: digits, separators, and the name of a month or a zone.
const dateLike = /^[\p{L}\d\s.,/:+-]{4,40}$/u;
/** How spreadsheets show an empty date. */
const emptyDate = /^(?:00?[./-]|0?1[./-](?:0?1|00?)[./-]1900\b|1900-01-0[01])/;
const fourDigits = /(?<!\d)\d{4}(?!\d)/g;
/** Fractions of a second, and a zone such as `+0100`. */
const afterTime = /(?<=:\d\d)(?:\.\d{1,9})?(?:[+-]\d{4})?$/;
/** A date without separators, such as `19850315`. */
const compactDate = /^(\d{4})(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$/;

/** Before it, a year is part of a date without one: address books write `--0315`, or a day of 1604 or 0004. */
const firstYear = 1900;

/** @throws InvalidCell if the text has no year from 1900 to this one, or several */
export function readYear(text: string): number {
  const compact = compactDate.exec(text)?.[1];
  const years = compact ? [compact] : dateLike.test(text) ? (text.replace(afterTime, '').match(fourDigits) ?? []) : [];
  const year = Number(years[0]);
  if (years.length !== 1 || year < firstYear || emptyDate.test(text))
    throw new InvalidCell(`${quoted(text)} is not a year (such as 1985) or a date with a year`);
  // Spreadsheets make 2029 of 15.03.29.
  if (year > new Date().getFullYear()) throw new InvalidCell(`${quoted(text)} is in the future`);
  return year;
}

/** A longer text is not read for e-mail addresses (characters). A cell can have many, with the names of their owners. */
const longestEmails = 10_000;

const betweenEmails = /(?:[\s,;<>()[\]"]|:::)+/;

/** The e-mail addresses in a text, in its order, each once, and what looks like one, but is not valid. */
export function findEmails(text: string): { addresses: string[]; invalid: string[] } {
  if (!text.startsWith("'") && isEmailAddress(text)) return { addresses: [text], invalid: [] }; // as nearly all are
  const found = text.length > longestEmails ? [] : text.split(betweenEmails).map(plainAddress);
  return {
    addresses: [...new Set(found.filter(isEmailAddress))],
    invalid: found.filter((part) => part.includes('@') && !isEmailAddress(part)),
  };
}

/** Removes what people write around an address: `mailto:`, quotes, a full stop. */
function plainAddress(part: string): string {
  const address = trimText(part).replace(/^'?(?:mailto:)?'?/i, '');
  let end = address.length;
  while (end > 0 && "'.:".includes(address[end - 1]!)) end -= 1;
  return address.slice(0, end);
}

export const noEmail = (text: string): string => `${quoted(text)} is not an e-mail address`;

/** @throws InvalidCell */
export function readDomain(text: string): string {
  const domain = domainOf(text);
  if (domain === undefined) throw new InvalidCell(noDomain(text));
  if (sharedPage.test(text)) throw new InvalidCell(`${quoted(text)} is a page on a site of many companies`);
  return domain;
}

/** Columns called "Website" have such pages too. Their companies would be one, because they have one domain. */
const sharedPage =
  /^(?:https?:\/\/)?(?:[\w-]+\.)*(?:(?:facebook|instagram|linkedin|pinterest|tiktok|twitter|x|xing|youtube)\.com|linktr\.ee|sites\.google\.com|business\.site)\/[^?#\s]/i;

export const noDomain = (text: string): string => `${quoted(text)} is not a domain (such as example.com)`;

const host = /^[\p{L}\d-]+(?:\.[\p{L}\d-]+)+(?:[/?#:]\S*)?$/u;

/** A web address with its scheme, or the name of an account, such as `@ada`. */
const isAddress = (text: string): boolean => /^(?:[a-z][a-z\d+.-]*:\S+|@\S+)$/i.test(text);

/**
 * Adds the scheme to a web address that has none.
 * @throws InvalidCell
 */
export function readUrl(text: string): string {
  if (host.test(text)) return `https://${text}`;
  if (!isAddress(text)) throw new InvalidCell(`${quoted(text)} is not a web address (such as https://example.com)`);
  return text;
}

/** Words that begin a last name, such as `van der Berg`. */
const particles = new Set(
  "van von der den de del della di da do dos das du la le les los las ter ten te zu zur zum vom af av ben bin ibn al el bint mac st st. ’t 't".split(
    ' ',
  ),
);

/** Salutations and titles before a name. Compared in lower case, without a dot at the end. */
const titles = new Set(
  'herr herrn frau fräulein mr mrs ms miss mx sir mme mlle monsieur madame sr sra srta don doña dott dott.ssa avv dr drs dra prof professor professorin profa univ priv doz dipl mag maga ddr dkfm lic rev'.split(
    ' ',
  ),
);

/** Titles only with a dot, or in capitals: without it they could be names. */
const dottedTitles = /^(?:hr|fr|ing|mag\.a|ao|apl|em|hon)\.$/i;
const capitalTitles = new Set(['DI', 'PD']);

/** A title with what it is joined to, such as `Dipl.-Ing.`, `Dr.-Ing.` and `Univ.-Prof.`. */
const joinedTitle = /^(?:dipl|dr|prof|univ|priv|hon)\.?-\p{L}/iu;

/** What follows a title: a subject, `h. c.`, or a school between brackets, as in `Dipl.-Ing. (FH)`. */
const titleSubject =
  /^(?:(?:med|rer|nat|phil|jur|iur|oec|pol|habil|techn|theol|vet|dent|agr|paed|soc|sc|ing|mont|publ|h|c|h\.c|mult)\.|hc|\((?:fh|ba|dh|uni|tu|h\.?c\.?)\))$/i;

/** Degrees and the like after a name. Compared in lower case, without dots. */
const generations = new Set('jr sr ii iii iv'.split(' '));
const degrees = new Set(
  'phd dphil md mba emba esq ma mas ms msc mse meng med mfa mph mpa mpp mphil mtech ba bs bsc beng bed bba bcom btech llm llb jd dds dmd dvm dba edd psyd pharmd dnp do rn bsn msn np pa cpa cfa cfp cma pmp cissp cisa cism csm pe pmi shrm-cp shrm-scp phr sphr fca aca acca mrics frcs mbe obe cbe qc kc ret dipl-ing diplom mmag'.split(
    ' ',
  ),
);

export interface FullName {
  first_name?: string;
  last_name?: string;
}

/** A name, and the titles and degrees that are no part of it, as they are written. */
export interface ReadName {
  name: FullName;
  leftOut: string[];
}

/**
 * Splits the name of a person. The last word is the last name, with the particles before it. In `Last, First` the comma
 * decides. Titles before the name and degrees after it are left out; a text of titles alone is a last name.
 * @param hasTwoFamilyNames the person has two last names, as in Spanish and Portuguese
 */
export function readFullName(written: string, hasTwoFamilyNames = false): ReadName {
  const spaced = written.replaceAll(/\b(dr|prof|mag|dipl|ing|hr|fr|mrs?|ms)\.(?=\p{L})/giu, '$1. ');
  const parts = spaced.split(',').map(wordsOf);
  const isShouting = spaced === spaced.toUpperCase();
  const leftOut: string[] = [];
  const all = parts.filter((part) => part.length > 0);
  const first = all[0] ?? [];
  const names = all.filter((part, i) => {
    const isDegrees =
      i > 0 && part.every((word) => isDegree(word, isShouting) || isUnknownDegree(word, isShouting, first));
    if (isDegrees) leftOut.push(...part);
    return !isDegrees;
  });
  const [before = [], ...after] = names.map((part) => withoutTitles(part, isShouting, leftOut));
  if (after.length > 0) return { name: named(after.map(joined).join(', '), joined(before)), leftOut };
  return { name: split(before, hasTwoFamilyNames), leftOut };
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const joined = (words: readonly string[]): string => words.join(' ');

const named = (first: string, last: string): FullName => ({
  ...(first === '' ? {} : { first_name: first }),
  ...(last === '' ? {} : { last_name: last }),
});

/** Removes titles and degrees, unless nothing would be left. */
function withoutTitles(words: string[], isShouting: boolean, leftOut: string[]): string[] {
  let start = 0;
  while (start < words.length && (isTitle(words[start]!) || (start > 0 && titleSubject.test(words[start]!))))
    start += 1;
  if (start === words.length) return words;
  let end = words.length;
  while (end - start > 2 && isDegree(words[end - 1]!, isShouting)) end -= 1;
  leftOut.push(...words.slice(0, start), ...words.slice(end));
  return words.slice(start, end);
}

const isTitle = (word: string): boolean =>
  titles.has(word.toLowerCase().replace(/\.$/, '')) ||
  dottedTitles.test(word) ||
  capitalTitles.has(word) ||
  joinedTitle.test(word);

/** In a text of capitals, `MA` can be a name. With dots, it is a degree. */
function isDegree(word: string, isShouting: boolean): boolean {
  const key = word.toLowerCase().replaceAll('.', '');
  if (generations.has(key)) return true;
  return (
    degrees.has(key) &&
    (word.slice(0, -1).includes('.') || (!isShouting && /\p{Lu}.*\p{Lu}/u.test(word)) || key === 'esq')
  );
}

/** A word of capitals after `Ann Lee,` is a degree. After `Lee,` it can be the first name. */
const isUnknownDegree = (word: string, isShouting: boolean, before: readonly string[]): boolean =>
  !isShouting && before.length > 1 && word.length <= 12 && /^\p{Lu}{3,6}(?:-\p{Lu}{1,5})?[®™]?$/u.test(word);

function split(words: readonly string[], hasTwoFamilyNames: boolean): FullName {
  let start = startOfLast(words, words.length);
  const isPair = hasTwoFamilyNames && start > 1 && !(start === 2 && secondFirstNames.has(words[1]!.toLowerCase()));
  if (isPair) start = startOfLast(words, start);
  // A name of two words such as `De Niro` is a last name if it begins with a particle.
  if (start === 1 && words.length > 1 && particles.has(words[0]!)) start = 0;
  return named(joined(words.slice(0, start)), joined(words.slice(start)));
}

/** Returns the index of the first word of the last name that ends before `end`. */
function startOfLast(words: readonly string[], end: number): number {
  let start = end - 1;
  const withParticles = (): void => {
    while (start > 1 && particles.has(words[start - 1]!.toLowerCase())) start -= 1;
  };
  withParticles();
  // José Ortega y Gasset
  if (start > 2 && (words[start - 1] === 'y' || words[start - 1] === 'e')) start -= 2;
  withParticles();
  return Math.max(0, start);
}

/** In `José Luis García`, the second word is a first name. */
const secondFirstNames = new Set(
  'maría maria josé jose luis luís carlos antonio antónio manuel jesús jesus ángel angel juan joão joao francisco javier miguel fernando pablo alberto ignacio isabel carmen teresa pilar dolores cristina luisa luísa elena'.split(
    ' ',
  ),
);

/** Countries where people have two last names. */
const withTwoFamilyNames = new Set(
  'ES MX AR CO PE VE CL EC GT CU BO DO HN PY SV NI CR PR PA UY GQ PT BR AO MZ CV GW ST'.split(' '),
);

export const hasTwoFamilyNamesIn = (country: string): boolean => withTwoFamilyNames.has(country);
