import type { CountryCode, parsePhoneNumberFromString } from 'libphonenumber-js/max';
import otherNames from './country-names.json' with { type: 'json' };
import { formats } from '../schemas/formats.ts';
import { memoize, words, wordSet, trimText, type PhoneNumber } from '../text/fold.ts';

/** Converts a country name to its ISO 3166-1 alpha-2 code. Returns `""` when the name is unknown or ambiguous. */
export type CountryCodes = (name: string) => string;

let loadingCodes: Promise<CountryCodes> | undefined;

/** Returns the function that converts country names to codes. The first call takes 100 ms to load the names. */
export const countryCodes = (): Promise<CountryCodes> => (loadingCodes ??= loadCodes());

async function loadCodes(): Promise<CountryCodes> {
  const { default: names } = await import('i18n-iso-countries');
  const codes = new CodesByName();
  // Node's own English names are the short ones that people write: Syria, not Syrian Arab Republic.
  const short = new Intl.DisplayNames('en', { type: 'region' });
  for (const [alpha2, alpha3] of Object.entries(names.getAlpha2Codes()))
    for (const name of [alpha2, alpha3, short.of(alpha2)!]) codes.add(name, alpha2);
  // Names that the library lacks: parts of a country, and other official names.
  for (const [alpha2, others] of Object.entries(otherNames))
    for (const name of others.split('|')) codes.add(name, alpha2);
  // Signs of cars, which Europeans use as codes.
  for (const sign of carSigns.split(' ')) codes.add(...(sign.split('=') as [string, string]));
  for (const language of names.getSupportedLanguages())
    for (const [alpha2, given] of Object.entries(names.getNames(language, { select: 'all' })))
      for (const name of given) codes.add(name, alpha2);
  return memoize((name) => codes.find(name));
}

const carSigns = 'A=AT B=BE BRD=DE D=DE E=ES F=FR H=HU I=IT L=LU N=NO P=PT S=SE';

const longestName = 100;

class CodesByName {
  readonly #byName = new Map<string, Set<string>>();
  /** Country codes by the sorted words of a name, without words such as `of`. Finds `Iran, Islamic Republic of`. */
  readonly #byWords = new Map<string, Set<string>>();

  add(name: string, code: string): void {
    const all = words(name);
    put(this.#byName, all.join(' '), code);
    put(this.#byWords, inAnyOrder(all), code);
  }

  find(name: string): string {
    if (name.length > longestName) return '';
    const all = words(name);
    const found = only(this.#byName.get(all.join(' ')));
    // In another language, a connector has a meaning: without it, Welsh "De Affrica" (South Africa) would be Africa.
    return found || (all.length > 1 ? only(this.#byWords.get(inAnyOrder(all))) || this.#withoutForm(all) : '');
  }

  #withoutForm(all: readonly string[]): string {
    const rest = all.filter((word) => !formWords.has(word) && !forms.has(word));
    const name = rest.join(' ');
    const isOfficial = rest.length > 0 && all.some((word) => forms.has(word)) && !severalOf.has(name);
    return isOfficial ? only(this.#byName.get(name)) : '';
  }
}

function put(codes: Map<string, Set<string>>, key: string, code: string): void {
  codes.set(key, (codes.get(key) ?? new Set()).add(code));
}

const connectors = wordSet('of the and de du des del d da do di la le les l el und et y e');

const forms = wordSet(
  'republic republik bundesrepublik republique republica repubblica kingdom konigreich royaume reino regno state staat etat estado stato ' +
    'commonwealth principality furstentum principaute principado duchy grossherzogtum sultanate emirate union confederation federation',
);

const formWords = wordSet(
  'islamic federal federative federativa federale democratic people s plurinational bolivarian united cooperative co operative arab ' +
    `socialist independent oriental eastern hashemite grand ${[...connectors].join(' ')}`,
);

/** Names that several countries share, unless the form of government is named, as in `Republic of Korea`. */
const severalOf = wordSet('china congo korea georgia');

const inAnyOrder = (all: readonly string[]): string =>
  all
    .filter((word) => !connectors.has(word))
    .toSorted()
    .join(' ');

function only(codes: Set<string> | undefined): string {
  const [code, second] = codes ?? [];
  return code !== undefined && second === undefined && formats.country(code) ? code : '';
}

export const phoneText = ({ country_code, number }: PhoneNumber): string => `${country_code} ${number}`.trim();

export interface PhoneReader {
  /**
   * Reads the phone numbers in a text. Keeps a number that it cannot parse as written, without a country code. Returns
   * an empty array if the text cannot be a phone number.
   * @param country the record's country (ISO 3166-1 alpha-2), for numbers without a country code
   */
  read(text: string, country: string): PhoneNumber[];
  /**
   * Returns a number in E.164, such as `+4915112345678`. Keeps a number as written if it has an extension or cannot be
   * parsed. Returns undefined if the text cannot be a phone number.
   */
  readText(text: string, country: string): string | undefined;
  /** Formats a number for people, such as `+49 1511 2345678`. Returns a number that it cannot parse unchanged. */
  write(phone: PhoneNumber): string;
}

const leastDigits = 5;
const longestNumber = 255;
const longestDivided = 200;

/**
 * Returns true if a spreadsheet has rounded the number, so that its last digits are lost: `4.91512E+12` or
 * `4915120000000`.
 */
const isRounded = (text: string): boolean => /^(?:[\d.,]+E\+?\d+|(?=\d{12})\d{1,6}0{6,})$/i.test(text);

/** Returns true for a date such as `1934-12-06`. Spreadsheets turn a number such as `6-12-34` into a date. */
const isDate = (text: string): boolean => /^(?:19|20)\d\d-[01]\d-[0-3]\d(?:T|$)/.test(text);

const isNumberLike = (text: string): boolean =>
  text.length <= longestNumber &&
  (text.match(/\p{Nd}/gu)?.length ?? 0) >= leastDigits &&
  !isRounded(text) &&
  !isDate(text);

// A `/` without blanks can be part of a number.
const betweenNumbers = /[,|\n]|\s(?:[/&]|u\.|und|oder|and|or)\s/i;

let loadingReader: Promise<PhoneReader> | undefined;

export const phoneReader = (): Promise<PhoneReader> => (loadingReader ??= loadReader());

async function loadReader(): Promise<PhoneReader> {
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
    write(phone) {
      const text = phoneText(phone);
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

/** Matches a number whose `+` a spreadsheet may have removed: `+49 30 901820` → `4930901820`. */
const withoutPlus = /^[1-9][\d\s./-]*$/;

const digitsOf = (text: string): string => text.replaceAll(/\D/g, '');

const plainNumber = /^\+?[\d\s./()-]+$/;

const withoutWords = (written: string): string =>
  written
    // A label, a note, and the apostrophe that makes a cell text: `Tel.: 030 901820 (office)`.
    .replace(/^\s*(?:'|\p{L}{1,10}[.:]+:?\s*)/u, '')
    .replace(/\s*\(\p{L}[\p{L}\s.]*\)\s*$/u, '')
    // The library reads no `(+49) 30 901820`.
    .replace(/^\s*\(\s*([+\uff0b]\d{1,3})\s*\)/, '$1 ');
