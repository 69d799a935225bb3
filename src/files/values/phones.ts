import type { CountryCode, parsePhoneNumberFromString } from 'libphonenumber-js/max';

/** A phone number as the API takes it. */
export interface PhoneNumber {
  country_code: string;
  number: string;
}

/** Reads phone numbers as people write them. */
export interface PhoneReader {
  /**
   * Returns the country code and the digits of the national number. A number that cannot be read is kept as written,
   * without a country code. Undefined: the text has less than five digits, and is no number.
   * @param country the record's country (ISO 3166-1 alpha-2), for a number without a country code
   */
  read(text: string, country: string): PhoneNumber | undefined;
  /**
   * Returns a number in E.164, such as `+4915112345678`. One that cannot be read, or has an extension, is kept as written.
   * Undefined: the text is no number.
   */
  readText(text: string, country: string): string | undefined;
  /** Returns a number as people write it, such as `+49 1511 2345678`. One that cannot be read is returned as it is. */
  write(phone: PhoneNumber): string;
}

const leastDigits = 5;

const isNumberLike = (text: string): boolean => (text.match(/\p{Nd}/gu)?.length ?? 0) >= leastDigits;

let loading: Promise<PhoneReader> | undefined;

/** The first call loads the numbering plans of all countries. */
export const phoneReader = (): Promise<PhoneReader> => (loading ??= load());

async function load(): Promise<PhoneReader> {
  const { isSupportedCountry, parsePhoneNumberFromString: parse } = await import('libphonenumber-js/max');
  const find = (text: string, country: string) =>
    findNumber(parse, text, isSupportedCountry(country) ? country : undefined);
  return {
    read(text, country) {
      if (!isNumberLike(text)) return undefined;
      const found = find(text, country);
      if (!found) return { country_code: '', number: text };
      const extension = found.ext === undefined ? '' : ` ext. ${found.ext}`;
      return { country_code: `+${found.countryCallingCode}`, number: `${found.nationalNumber}${extension}` };
    },
    readText(text, country) {
      if (!isNumberLike(text)) return undefined;
      const found = find(text, country);
      return !found || found.ext !== undefined ? text : found.number;
    },
    write({ country_code, number }) {
      const text = `${country_code} ${number}`.trim();
      return find(text, '')?.formatInternational() ?? text;
    },
  };
}

function findNumber(parse: typeof parsePhoneNumberFromString, written: string, country: CountryCode | undefined) {
  // The library reads no `(+49) 30 901820`.
  const text = written.replace(/^\s*\(\s*([+\uff0b]\d{1,3})\s*\)/, '$1 ');
  // Without `extract`, words around a number are not dropped: such a text is no number.
  const found = parse(text, { ...(country ? { defaultCountry: country } : {}), extract: false });
  const isInternational = /^[\s(]*[+\uff0b]/.test(text);
  return found && (isInternational ? found.isPossible() : found.isValid()) ? found : undefined;
}
