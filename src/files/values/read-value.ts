import { isEmailAddress } from '../../schemas/base/formats.ts';
import { domainOf } from '../../text/domains.ts';
import { trimText } from '../../text/trim.ts';
import { countryCodes, type CountryCodes } from './country-codes.ts';
import { phoneReader, type PhoneNumber, type PhoneReader } from './phones.ts';

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
