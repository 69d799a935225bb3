import { isEmailAddress } from '../schemas/formats.ts';
import { domainOf } from '../text/domains.ts';
import { trimText, wordSet } from '../text/fold.ts';

export class InvalidCell extends Error {}

/**
 * What a column contains. Decides which ways of writing a value an import accepts.
 *
 * - `text`: any text.
 * - `name`: a name. `-` and `n/a` are values, not empty cells.
 * - `country`: the name of a country in any language, or its code.
 * - `year`: a year, or a date with a year.
 * - `email`, `emails`: addresses, also as `Ada <ada@example.com>` or `mailto:ada@example.com`.
 * - `domain`: a host name, or a web address with it.
 * - `currency`: a currency code, or a sign such as `€`.
 * - `url`: a web address, also without `https://`.
 * - `phone`, `phones`: phone numbers in any usual form.
 * - `full name`: the name of a person. The import splits it into first and last name.
 */
export type ValueKind =
  | 'text'
  | 'name'
  | 'full name'
  | 'country'
  | 'year'
  | 'gender'
  | 'email'
  | 'emails'
  | 'domain'
  | 'currency'
  | 'url'
  | 'phone'
  | 'phones';

const longestShown = 100;

export const quoted = (text: string): string =>
  JSON.stringify(text.length > longestShown ? `${text.slice(0, longestShown - 1).toWellFormed()}…` : text);

const nothing = new Set(['n/a', 'n.a.', '#nv', 'k.a.', 'k. a.', 'keine angabe', 'null', 'unspecified']);

const noWord = /^(?:\p{Pd}+|\?+)$/u;

/** Matches errors that spreadsheets show in any language, such as `#N/A` and `#REF!`. */
const formulaError = /^#(?:\p{L}\/\p{L}|[¡¿]?\p{Lu}[\p{Lu}\d/]*[!?])$/u;

/** Matches an empty date as Outlook, databases and spreadsheets write it, such as `0/0/00`. */
const noDate = /^0{1,4}([./-])0{1,2}\1(?:0{1,2}|0{4})$/;

export const isNothing = (text: string): boolean =>
  text.length <= longestNothing &&
  (nothing.has(text.toLowerCase()) || noWord.test(text) || noDate.test(text) || formulaError.test(text));

const longestNothing = 12;

// Of a date as people write it: digits, separators, and the name of a month or a zone.
const dateLike = /^[\p{L}\d\s.,/:+-]{4,40}$/u;
const emptyDate = /^(?:00?[./-]|0?1[./-](?:0?1|00?)[./-]1900\b|1900-01-0[01])/;
const fourDigits = /(?<!\d)\d{4}(?!\d)/g;
const afterTime = /(?<=:\d\d)(?:\.\d{1,9})?(?:[+-]\d{4})?$/;
const compactDate = /^(\d{4})(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$/;

/** First year that counts as a birth year. Address books write a day without a year as a date of 1604 or 0004. */
const firstYear = 1900;

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

const longestEmails = 10_000;

const betweenEmails = /(?:[\s,;<>()[\]"]|:::)+/;

/**
 * Finds e-mail addresses in a text.
 * @returns `addresses`: distinct, in their order. `invalid`: texts with an `@` that are not an address
 */
export function findEmails(text: string): { addresses: string[]; invalid: string[] } {
  if (isEmailAddress(text)) return { addresses: [text], invalid: [] }; // as nearly all are
  const found = text.length > longestEmails ? [] : text.split(betweenEmails).map(plainAddress);
  return {
    addresses: [...new Set(found.filter(isEmailAddress))],
    invalid: found.filter((part) => part.includes('@') && !isEmailAddress(part)),
  };
}

function plainAddress(part: string): string {
  const address = trimText(part).replace(/^'?(?:mailto:)?'?/i, '');
  let end = address.length;
  while (end > 0 && "'.:".includes(address[end - 1]!)) end -= 1;
  return address.slice(0, end);
}

export const noEmail = (text: string): string => `${quoted(text)} is not an e-mail address`;

export function readDomain(text: string): string {
  const domain = domainOf(text);
  if (domain === undefined) throw new InvalidCell(noDomain(text));
  if (sharedPage.test(text)) throw new InvalidCell(`${quoted(text)} is a page on a site of many companies`);
  return domain;
}

/** Matches pages on sites of many companies, such as `facebook.com/acme`. Their domain does not identify a company. */
const sharedPage =
  /^(?:https?:\/\/)?(?:[\w-]+\.)*(?:(?:facebook|instagram|linkedin|pinterest|tiktok|twitter|x|xing|youtube)\.com|linktr\.ee|sites\.google\.com|business\.site)\/[^?#\s]/i;

export const noDomain = (text: string): string => `${quoted(text)} is not a domain (such as example.com)`;

const host = /^[\p{L}\d-]+(?:\.[\p{L}\d-]+)+(?:[/?#:]\S*)?$/u;

const isAddress = (text: string): boolean => /^(?:[a-z][a-z\d+.-]*:\S+|@\S+)$/i.test(text);

export function readUrl(text: string): string {
  if (host.test(text)) return `https://${text}`;
  if (!isAddress(text)) throw new InvalidCell(`${quoted(text)} is not a web address (such as https://example.com)`);
  return text;
}

const particles = wordSet(
  "van von der den de del della di da do dos das du la le les los las ter ten te zu zur zum vom af av ben bin ibn al el bint mac st st. ’t 't",
);

const titles = wordSet(
  'herr herrn frau fräulein mr mrs ms miss mx sir mme mlle monsieur madame sr sra srta don doña dott dott.ssa avv dr drs dra prof professor professorin profa univ priv doz dipl mag maga ddr dkfm lic rev',
);

/** Matches words that are a title only with a final dot. Without it, they could be names. */
const dottedTitles = /^(?:hr|fr|ing|mag\.a|ao|apl|em|hon)\.$/i;
const capitalTitles = new Set(['DI', 'PD']);

const joinedTitle = /^(?:dipl|dr|prof|univ|priv|hon)\.?-\p{L}/iu;

/** Matches a word that continues a title: a subject, `h. c.`, or a school in brackets, as in `Dipl.-Ing. (FH)`. */
const titleSubject =
  /^(?:(?:med|rer|nat|phil|jur|iur|oec|pol|habil|techn|theol|vet|dent|agr|paed|soc|sc|ing|mont|publ|h|c|h\.c|mult)\.|hc|\((?:fh|ba|dh|uni|tu|h\.?c\.?)\))$/i;

const generations = wordSet('jr sr ii iii iv');
const degrees = wordSet(
  'phd dphil md mba emba esq ma mas ms msc mse meng med mfa mph mpa mpp mphil mtech ba bs bsc beng bed bba bcom btech llm llb jd dds dmd dvm dba edd psyd pharmd dnp do rn bsn msn np pa cpa cfa cfp cma pmp cissp cisa cism csm pe pmi shrm-cp shrm-scp phr sphr fca aca acca mrics frcs mbe obe cbe qc kc ret dipl-ing diplom mmag',
);

interface FullName {
  first_name?: string;
  last_name?: string;
}

/** A split name. `leftOut`: titles and degrees that were removed from it, as written. */
interface ReadName {
  name: FullName;
  leftOut: string[];
}

/**
 * Splits a person's name into first and last name. `Jan van der Berg`: the last word and the particles before it are
 * the last name. `Berg, Jan`: the last name comes first. Removes titles and degrees.
 * @param hasTwoFamilyNames true: the person has two last names, as in Spanish and Portuguese
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

/**
 * Returns true for a degree such as `MBA` or `Ph.D.`, or a suffix such as `Jr.`. If the whole text is in capitals, `MA`
 * can be a name, so a degree needs dots there.
 */
function isDegree(word: string, isShouting: boolean): boolean {
  const key = word.toLowerCase().replaceAll('.', '');
  if (generations.has(key)) return true;
  return (
    degrees.has(key) &&
    (word.slice(0, -1).includes('.') || (!isShouting && /\p{Lu}.*\p{Lu}/u.test(word)) || key === 'esq')
  );
}

/**
 * Returns true for a word in capitals after a comma, as in `Ann Lee, FRSA`. Not after a single word: in `Lee, ANN`, it
 * is the first name.
 */
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

const secondFirstNames = wordSet(
  'maría maria josé jose luis luís carlos antonio antónio manuel jesús jesus ángel angel juan joão joao francisco javier miguel fernando pablo alberto ignacio isabel carmen teresa pilar dolores cristina luisa luísa elena',
);

const withTwoFamilyNames = wordSet(
  'ES MX AR CO PE VE CL EC GT CU BO DO HN PY SV NI CR PR PA UY GQ PT BR AO MZ CV GW ST',
);

export const hasTwoFamilyNamesIn = (country: string): boolean => withTwoFamilyNames.has(country);
