import type { CountryCode, parsePhoneNumberFromString } from 'libphonenumber-js/max';
import { trimText } from '../../text/trim.ts';

/** A phone number as the API takes it. */
export interface PhoneNumber {
  country_code: string;
  number: string;
}

/** Reads phone numbers as people write them. */
export interface PhoneReader {
  /**
   * Returns the country code and the digits of the national number of each number in a text. A text that cannot be read is
   * kept as written, without a country code. Empty: the text has less than five digits or is too long, so it is not a number.
   * @param country the record's country (ISO 3166-1 alpha-2), for a number without a country code
   */
  read(text: string, country: string): PhoneNumber[];
  /**
   * Returns a number in E.164, such as `+4915112345678`. One that cannot be read, or has an extension, is kept as written.
   * Undefined: the text is not a number.
   */
  readText(text: string, country: string): string | undefined;
  /** Returns a number as people write it, such as `+49 1511 2345678`. One that cannot be read is returned as it is. */
  write(phone: PhoneNumber): string;
}

const leastDigits = 5;
/** A text that is longer is not a number (characters). */
const longestNumber = 255;
/** A text that is longer is not divided into numbers (characters). */
const longestDivided = 200;

/**
 * A spreadsheet has replaced the last digits: it shows numbers of 12 digits and more as `4.91512E+12`, which becomes
 * `4915120000000` when such a file is opened and saved again.
 */
const isRounded = (text: string): boolean => /^(?:[\d.,]+E\+?\d+|(?=\d{12})\d{1,6}0{6,})$/i.test(text);

/** A spreadsheet takes `6-12-34` for a date, of the years 1930 to 2029. `0711-12-30` is a number in Stuttgart. */
const isDate = (text: string): boolean => /^(?:19|20)\d\d-[01]\d-[0-3]\d(?:T|$)/.test(text);

const isNumberLike = (text: string): boolean =>
  text.length <= longestNumber &&
  (text.match(/\p{Nd}/gu)?.length ?? 0) >= leastDigits &&
  !isRounded(text) &&
  !isDate(text);

/** What stands between numbers. A `/` without blanks can be in a number. */
const betweenNumbers = /[,|\n]|\s(?:[/&]|u\.|und|oder|and|or)\s/i;

let loading: Promise<PhoneReader> | undefined;

/** The first call loads the numbering plans of all countries. */
export const phoneReader = (): Promise<PhoneReader> => (loading ??= load());

async function load(): Promise<PhoneReader> {
  const { isSupportedCountry, parsePhoneNumberFromString: parse } = await import('libphonenumber-js/max');
  const find = (text: string, country: string) =>
    findNumber(parse, text, isSupportedCountry(country) ? country : undefined);
  const readOne = (text: string, country: string): PhoneNumber | undefined => {
    if (!isNumberLike(text)) return undefined;
    const found = find(text, country);
    if (!found) return { country_code: '', number: text };
    const extension = found.ext === undefined ? '' : ` ext. ${found.ext}`;
    return { country_code: `+${found.countryCallingCode}`, number: `${found.nationalNumber}${extension}` };
  };
  return {
    read(text, country) {
      const whole = readOne(text, country);
      if (!whole || whole.country_code !== '' || text.length > longestDivided) return whole ? [whole] : [];
      const parts = text.split(betweenNumbers).map((part) => readOne(trimText(part), country));
      return parts.every((part) => part !== undefined && part.country_code !== '') ? (parts as PhoneNumber[]) : [whole];
    },
    readText(text, country) {
      if (!isNumberLike(text)) return undefined;
      const found = find(text, country);
      return !found || found.ext !== undefined ? text : found.number;
    },
    write({ country_code, number }) {
      const text = `${country_code} ${number}`.trim();
      return (text.length > longestNumber ? undefined : find(text, ''))?.formatInternational() ?? text;
    },
  };
}

function findNumber(parse: typeof parsePhoneNumberFromString, written: string, country: CountryCode | undefined) {
  const text = plainNumber.test(written) ? written : withoutWords(written);
  // Without `extract`, words around a number are not dropped: such a text is not a number.
  const found = parse(text, { ...(country ? { defaultCountry: country } : {}), extract: false });
  const isInternational = /^[\s(]*[+\uff0b]/.test(text);
  const valid = found && (isInternational ? found.isPossible() : found.isValid()) ? found : undefined;
  if (country && withoutPlus.test(text) && !(valid && digitsOf(valid.formatNational()) === digitsOf(text))) {
    const own = parse(`+${text}`, { extract: false });
    if (own?.country === country && own.isValid()) return own;
  }
  return valid;
}

/**
 * Spreadsheets make `4930901820` of `+49 30 901820`. If its country is Germany, it could be `04930 901820` too, which has
 * lost its 0. That is rare. In Italy people write `390 809 0531` without a 0, so it has lost nothing.
 */
const withoutPlus = /^[1-9][\d\s./-]*$/;

const digitsOf = (text: string): string => text.replaceAll(/\D/g, '');

/** Nothing but a number. */
const plainNumber = /^\+?[\d\s./()-]+$/;

const withoutWords = (written: string): string =>
  written
    // A label, a note, and the apostrophe that makes a cell text: `Tel.: 030 901820 (office)`.
    .replace(/^\s*(?:'|\p{L}{1,10}[.:]+:?\s*)/u, '')
    .replace(/\s*\(\p{L}[\p{L}\s.]*\)\s*$/u, '')
    // The library reads no `(+49) 30 901820`.
    .replace(/^\s*\(\s*([+\uff0b]\d{1,3})\s*\)/, '$1 ');
