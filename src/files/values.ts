import { isDeepStrictEqual } from 'node:util';
import type { CustomType, InvalidValues } from '../schemas/imports.ts';
import { fold, trimText, lengthOf, wordSet, type PhoneNumber } from '../text/fold.ts';
import {
  InvalidCell,
  isNothing,
  quoted,
  readUrl,
  hasTwoFamilyNamesIn,
  readFullName,
  findEmails,
  noEmail,
  readDomain,
  readYear,
} from './read-value.ts';
import type { ValueKind } from './read-value.ts';
import { validationFailed, type Fault } from '../errors.ts';
import { pointerTo, tokensOf } from '../text/json.ts';
import { phoneText, type CountryCodes, type PhoneReader } from './phones.ts';

type CustomValue = string | number | boolean;

export type ReadType = CustomType | 'url' | 'instant';

export type Choices = ReadonlyMap<string, string>;

export const choicesBy = (choices: readonly string[]): Choices =>
  new Map([
    ...choices.map((choice) => [fold(choice), choice] as const),
    ...choices.map((choice) => [choice, choice] as const),
  ]);

/**
 * Returns the choice that a text names, whatever its case and accents. Returns undefined for an empty text, and the
 * text itself if it names no choice.
 */
function readChoice(text: string, choices: Choices): string | undefined {
  const trimmed = trimText(text);
  const meant = choices.get(text) ?? choices.get(trimmed) ?? choices.get(fold(trimmed));
  return meant ?? (trimmed === '' || isNothing(trimmed) ? undefined : trimmed);
}

/**
 * Converts a cell's text to the type of its column. Returns undefined for an empty text.
 * @param mark the decimal mark of the column, if its cells show it
 * @throws InvalidCell if the text does not have the type
 */
function readCustom(text: string, type: ReadType, mark?: DecimalMark): CustomValue | undefined {
  const trimmed = trimText(text);
  if (trimmed === '' || (type !== 'text' && isNothing(trimmed))) return undefined;
  return readers[type](trimmed, mark);
}

const readers: Record<ReadType, (text: string, mark?: DecimalMark) => CustomValue> = {
  text: (text) => text,
  number: readNumber,
  boolean: readBoolean,
  date: readDate,
  url: readUrl,
  instant: readInstant,
};

export type DecimalMark = '.' | ',';

const spaced = /^[-+]?\d{1,3}(?:[\s\u00a0\u202f'’]\d{3})+(?!\d)/;

/** Matches numbers with each decimal mark. The other mark may separate thousands, as in `1.234,5`. */
const written: Record<DecimalMark, RegExp> = {
  '.': /^[-+]?(?:\d{1,15}|[1-9]\d{0,2}(?:,\d{3}){1,4})(?:\.\d{1,17})?(?:e[-+]?\d{1,3})?$/i,
  ',': /^[-+]?(?:\d{1,15}|[1-9]\d{0,2}(?:\.\d{3}){1,4})(?:,\d{1,17})?(?:e[-+]?\d{1,3})?$/i,
};

const longestNumber = 100;

const maxExactDigits = 15;

/** Returns true for a number that JSON prints exactly as written, such as `1.5`, but not `1.50`, `007` or `1e3`. */
export const isExactNumber = (text: string): boolean =>
  text.length <= maxExactDigits + 2 &&
  /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(text) &&
  text.replaceAll(/[-.]/g, '').length <= maxExactDigits &&
  String(Number(text)) === text;

function numberWith(mark: DecimalMark, text: string): number | undefined {
  if (text.length > longestNumber) return undefined;
  const signed = trimText(text)
    .replace('\u2212', '-')
    .replace(/^([-+])\s+/, '$1');
  const joined = signed.replace(spaced, (thousands) => thousands.replaceAll(/[^-+\d]/g, ''));
  if (!written[mark].test(joined)) return undefined;
  const [digits, exponent = '0'] = joined.toLowerCase().split('e') as [string, string?];
  const [whole, decimals = '0'] = digits.split(mark) as [string, string?];
  const number = Number(`${whole.replaceAll(/[.,]/g, '')}.${decimals}e${exponent}`);
  return Number.isFinite(number) ? number : undefined;
}

/**
 * Returns the decimal mark that a number must have: `,` for `12,5`. Returns undefined for `1.200`, which can have
 * either mark.
 */
export function decimalMarkOf(text: string): DecimalMark | undefined {
  const [withPoint, withComma] = [numberWith('.', text), numberWith(',', text)];
  if ((withPoint === undefined) === (withComma === undefined)) return undefined;
  return withPoint === undefined ? ',' : '.';
}

/**
 * Converts a text to a number. The decimal mark of the column decides whether `1.200` is 1200 or 1.2.
 * @throws InvalidCell if the text is not a number, or has two meanings and the mark is unknown
 */
function readNumber(text: string, mark?: DecimalMark): number {
  const [withPoint, withComma] = [numberWith('.', text), numberWith(',', text)];
  const number = mark === ',' ? (withComma ?? withPoint) : (withPoint ?? withComma);
  if (number === undefined) throw new InvalidCell(`${quoted(text)} is not a number (such as 1234.5)`);
  if (mark === undefined && withPoint !== undefined && withComma !== undefined && withPoint !== withComma) {
    const [small, large] = [withPoint, withComma].toSorted((a, b) => Math.abs(a) - Math.abs(b)) as [number, number];
    throw new InvalidCell(`${quoted(text)} can be two numbers: write it as ${large} or ${small.toFixed(4)}`);
  }
  return number;
}

/** Rewrites a number so that both decimal marks give the same value: `1.200` becomes `1200` or `1.2000`. */
export function unambiguous(text: string, mark: DecimalMark): string {
  const [withPoint, withComma] = [numberWith('.', text), numberWith(',', text)];
  if (withPoint === undefined || withComma === undefined || withPoint === withComma) return text;
  const number = mark === '.' ? withPoint : withComma;
  return Number.isInteger(number) ? String(number) : number.toFixed(4);
}

const yes = wordSet('true yes y 1 x ja wahr j oui vrai si sí verdadero');
const no = wordSet('false no n 0 nein falsch non faux falso');

function readBoolean(text: string): boolean {
  const word = text.toLowerCase();
  if (yes.has(word) || no.has(word)) return yes.has(word);
  throw new InvalidCell(`${quoted(text)} is neither true nor false`);
}

// After a date, its time may follow, and nothing else, such as a second date.
const isoDate = /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]\s*\d{1,2}:\d{2}.*)?$/;
const writtenDate = /^(\d{1,2})([-/.])\s*(\d{1,2})\2\s*(\d{4})(?:,?\s+\d{1,2}:\d{2}.*)?$/;

function readDate(text: string): string {
  const [, year, month, day] = isoDate.exec(text) ?? [];
  const found = year === undefined ? dateAsWritten(text) : dateOf(year, month!, day!);
  if (found === undefined) throw new InvalidCell(`${quoted(text)} is not a date (such as 2024-12-31)`);
  return found;
}

const dayAlone = /^\d{1,4}[-/.]\s*\d{1,2}[-/.]\s*\d{1,4}/;
const timeAlone = /^(?:T|,?\s+)(\d{1,2}:\d{2})(:\d{2}(?:\.\d{1,9})?)?\s*(?:Z|UTC|([-+]\d{2}):?(\d{2})?)?$/i;
const longestInstant = 40;

/** Returns a time as RFC 3339. A date alone means midnight. Without a time zone, the time is in UTC. */
function readInstant(text: string): string {
  const day = readDate(text);
  if (!text.includes(':')) return `${day}T00:00:00Z`;
  const [, time, seconds = ':00', zone, zoneMinutes = '00'] =
    timeAlone.exec(text.slice(0, longestInstant).replace(dayAlone, '')) ?? [];
  if (time === undefined || text.length > longestInstant)
    throw new InvalidCell(`${quoted(text)} is not a date and time (such as 2024-12-31T18:00:00Z)`);
  return `${day}T${time.padStart(5, '0')}${seconds}${zone === undefined ? 'Z' : `${zone}:${zoneMinutes}`}`;
}

/** Returns a reader that returns undefined for a text that has no meaning, or two, instead of throwing. */
const clearly =
  <T>(read: (text: string) => T) =>
  (text: string): T | undefined => {
    try {
      return read(trimText(text));
    } catch (error) {
      if (error instanceof InvalidCell) return undefined;
      throw error;
    }
  };

export const clearNumber = clearly(readNumber);
export const clearDate = clearly(readDate);

/**
 * Reads a date such as `31.12.2024` or `12/31/2024`. With points, the day comes first.
 * @throws InvalidCell if two dates are possible, as in `01/02/2024`
 */
function dateAsWritten(text: string): string | undefined {
  const [, first, separator, second, year] = writtenDate.exec(text) ?? [];
  if (first === undefined) return undefined;
  const [asDayFirst, asMonthFirst] = [dateOf(year!, second!, first), dateOf(year!, first, second!)];
  if (separator === '.' || asMonthFirst === undefined || asDayFirst === asMonthFirst) return asDayFirst;
  if (asDayFirst === undefined) return asMonthFirst;
  throw new InvalidCell(`${quoted(text)} can be two dates: write it as ${asDayFirst} or ${asMonthFirst}`);
}

function dateOf(year: string, month: string, day: string): string | undefined {
  const text = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}

type Json = Record<string, unknown>;

export interface ReadColumn {
  /**
   * What the column contains, such as `country`. Imports then accept the usual ways to write it (`Germany` → `DE`).
   * Undefined: `customType` decides, or else values must have the form that exports write.
   */
  kind?: ValueKind | undefined;
  customType?: ReadType | undefined;
  choices?: Choices | undefined;
  /** Decimal mark of the numbers in the column. Undefined: no cell shows whether it is a point or a comma. */
  decimalMark?: DecimalMark | undefined;
  maxLength?: number | undefined;
  /** For full names in an import: true if the headers are Spanish or Portuguese, where people have two last names. */
  hasTwoFamilyNames?: boolean | undefined;
  item: readonly [field: string, part?: string];
}

export interface ValueReader {
  codeOf: CountryCodes;
  phones: PhoneReader;
}

/**
 * What `readValues` keeps about an item. `fitToStored` uses it to convert cells again once the stored record is known.
 */
interface Reading {
  raw: Json;
  furtherEmails: string[];
  reader: ValueReader;
  /** Fields whose cells are exactly the values of the stored record. */
  asStored: Set<string>;
  /**
   * Faults for e-mail addresses beyond the maximum: `new` if the record is new, `stored` together with the addresses of
   * the stored record.
   */
  cut: { new: Fault[]; stored?: Fault[] };
}

const readings = new WeakMap<object, Reading>();

/**
 * Converts the values of an item from the way people write them to the API's form. Removes empty values such as `n/a`,
 * and values that cannot be read.
 * @param texts the text of each column's cell
 * @returns `faults`: one for each value that cannot be read
 */
export function readValues(
  reader: ValueReader,
  columns: readonly ReadColumn[],
  raw: Json,
  texts: readonly (string | undefined)[],
): { item: Json; faults: Fault[] } {
  const item: Json = { ...raw };
  for (const [field, value] of Object.entries(raw))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) item[field] = { ...value };
  const faults: Fault[] = [];
  const furtherEmails: string[] = [];
  let path: ReadColumn['item'] = [''];
  const report = (message: string) =>
    void faults.push({ path: pointerTo(path.filter((token) => token !== undefined)), message });
  const convert = (needsCountry: boolean) => {
    const country = typeof item['location_country'] === 'string' ? item['location_country'] : '';
    const context: Context = { reader, country, furtherEmails, report };
    for (const [i, column] of columns.entries()) {
      const { kind, customType } = column;
      if ((kind ?? customType) === undefined || readsByCountry.has(kind) !== needsCountry) continue;
      if (kind === 'phones' && trimText(texts[i] ?? '').startsWith('[')) continue; // JSON means what it says
      path = column.item;
      change(item, path, (value) => readOr(column, value, context));
    }
  };
  convert(false);
  convert(true);
  if (typeof item['full_name'] === 'object') {
    Object.assign(item, item['full_name']);
    delete item['full_name'];
  }
  if (furtherEmails.length > 0) item['other_emails'] = union(item['other_emails'], furtherEmails);
  const cut = cutEmails(item);
  // Also of an item without changes: a phone number that was kept as written can be one of the stored record's country.
  const others = raw['other_emails'] === undefined ? furtherEmails : [];
  readings.set(item, { raw, furtherEmails: others, reader, asStored: new Set(), cut: { new: cut } });
  return { item, faults: [...faults, ...cut] };
}

const readsByCountry: ReadonlySet<ValueKind | undefined> = new Set(['phone', 'phones', 'full name']);

function change(item: Json, [field, part]: ReadColumn['item'], convert: (value: unknown) => unknown): void {
  const [object, name] = part === undefined ? [item, field] : [item[field] as Json | null | undefined, part];
  // A name such as `constructor` is in every object's prototype.
  if (!object || !Object.hasOwn(object, name) || object[name] === null) return;
  const converted = convert(object[name]);
  if (converted !== undefined) object[name] = converted;
  else if (part === undefined || Object.keys(object).length > 1) delete object[name];
  else delete item[field];
}

interface Context {
  reader: ValueReader;
  country: string;
  furtherEmails: string[];
  report: (message: string) => void;
}

const readTexts: Record<
  Exclude<ValueKind, 'phones' | 'emails' | 'full name'>,
  (text: string, context: Context) => unknown
> = {
  text: (text) => text,
  name: (text) => text,
  country: readCountry,
  year: readYear,
  gender: (text) => genders.get(fold(text).replace('.', '')) ?? text,
  domain: readDomain,
  currency: (text) => currencySigns.get(fold(text)) ?? text,
  url: readUrl,
  phone: readPhoneText,
  email: (text, context) => {
    const [first, ...others] = readEmails(text, context);
    context.furtherEmails.push(...others);
    return first;
  },
};

const genders = new Map([
  ...['herr', 'herrn', 'mr', 'm', 'monsieur', 'sr'].map((one) => [one, 'male'] as const),
  ...['frau', 'fraulein', 'mrs', 'ms', 'miss', 'mme', 'mlle', 'madame', 'sra', 'srta'].map(
    (one) => [one, 'female'] as const,
  ),
]);

const currencySigns = new Map([
  ['€', 'EUR'],
  ['euro', 'EUR'],
  ['euros', 'EUR'],
  ['£', 'GBP'],
  ['us$', 'USD'],
  ['us-dollar', 'USD'],
  ['sfr.', 'CHF'],
]);

function readCountry(text: string, { reader }: Context): string {
  const code = reader.codeOf(text);
  if (code === '') throw new InvalidCell(`${quoted(text)} is not a country (a name, or a code such as DE)`);
  return code;
}

function readPhoneText(text: string, { reader, country }: Context): string {
  const phone = reader.phones.readText(text, country);
  if (phone === undefined) throw new InvalidCell(noPhone(text));
  return phone;
}

const noPhone = (text: string): string => `${quoted(text)} is not a phone number`;

function readEmails(text: string, { report }: Context): string[] {
  const { addresses, invalid } = findEmails(text);
  if (addresses.length === 0) report(noEmail(text));
  else for (const one of invalid) report(noEmail(one));
  return addresses;
}

/** Returns undefined for a cell without a number, such as `n/a`: an update then keeps the stored numbers. */
function readPhones(phones: readonly PhoneNumber[], { reader, country, report }: Context): PhoneNumber[] | undefined {
  const texts = phones.map(phoneText).filter(isSomething);
  const read = texts.flatMap((text) => {
    const found = reader.phones.read(text, country);
    if (found.length === 0) report(noPhone(text));
    return found;
  });
  const left = read.slice(maxPhones).map((phone) => quoted(phoneText(phone)));
  if (left.length > 0) report(`has more than ${maxPhones} numbers: ${left.join(', ')}`);
  return read.length === 0 ? undefined : read.slice(0, maxPhones);
}

function readOr(column: ReadColumn, value: unknown, context: Context): unknown {
  try {
    return readAs(column, value, context);
  } catch (error) {
    if (!(error instanceof InvalidCell)) throw error;
    context.report(error.message);
    return undefined;
  }
}

/**
 * Maximum length of a text for each kind of value (characters). Kinds without an entry use the maximum of their field.
 */
const maxLengths: Partial<Record<ValueKind | ReadType, number>> = {
  'full name': 600,
  country: 100,
  currency: 20,
  year: 40,
  email: 10_000,
  emails: 10_000,
  number: 100,
  boolean: 20,
  date: 40,
  instant: 40,
};

/** Maximum length of a text in a field without its own maximum, such as `custom_fields` (characters). */
const maxTextLength = 16 * 1024;

function requireLength({ kind, customType, maxLength }: ReadColumn, text: string): void {
  const most = maxLengths[(kind ?? customType)!] ?? maxLength ?? maxTextLength;
  if (text.length > most && lengthOf(text) > most)
    throw new InvalidCell(`${quoted(text)} is longer than ${most} characters`);
}

function readAs(column: ReadColumn, value: unknown, context: Context): unknown {
  const { kind, customType, choices, decimalMark } = column;
  if (Array.isArray(value))
    for (const one of value) requireLength(column, typeof one === 'string' ? one : phoneText(one));
  if (typeof value === 'string') requireLength(column, value);
  if (choices && typeof value === 'string') return readChoice(value, choices);
  if (customType !== undefined) return typeof value === 'string' ? readCustom(value, customType, decimalMark) : value;
  if (kind === 'phones') return readPhones(value as PhoneNumber[], context);
  if (kind === 'emails') {
    const texts = (value as string[]).filter(isSomething);
    const read = [...new Set(texts.flatMap((text) => readEmails(text, context)))];
    return read.length === 0 ? undefined : read;
  }
  if (kind === 'year' && typeof value === 'number') return value === 0 ? undefined : readYear(String(value));
  if (kind === undefined || typeof value !== 'string') return value;
  const text = trimText(value);
  if (text === '' || (kind !== 'name' && kind !== 'full name' && !isSomething(text))) return undefined;
  if (kind === 'full name') return readName(text, column, context);
  return readTexts[kind](text, context);
}

function readName(text: string, { hasTwoFamilyNames }: ReadColumn, { country }: Context) {
  const isPair = country === '' ? hasTwoFamilyNames : hasTwoFamilyNamesIn(country);
  return readFullName(text, isPair).name;
}

/** Returns true if a text is a value. `0` is not: spreadsheets show 0 for a formula that refers to an empty cell. */
const isSomething = (text: string): boolean => text !== '' && text !== '0' && !isNothing(text);

const union = (emails: unknown, more: readonly string[]): string[] => [
  ...new Set([...((emails as string[] | null | undefined) ?? []), ...more]),
];

const [maxOtherEmails, maxPhones] = [20, 20];

function cutEmails(item: Json): Fault[] {
  const emails = item['other_emails'];
  if (!Array.isArray(emails) || emails.length <= maxOtherEmails) return [];
  item['other_emails'] = emails.slice(0, maxOtherEmails);
  const left = emails.slice(maxOtherEmails).map((email) => quoted(String(email)));
  return [{ path: '/other_emails', message: `has more than ${maxOtherEmails} addresses: ${left.join(', ')}` }];
}

/**
 * Returns the body that updates a stored record. Keeps values that equal the stored ones. Uses the stored country to
 * read phone numbers if the file has no country.
 * @throws DomainError `validation_failed` if the record would have too many e-mail addresses and `invalid` is `fail`
 */
export function fitToStored(body: Json, stored: Json, invalid: InvalidValues = 'skip'): Json {
  const reading = readings.get(body);
  if (!reading) return body;
  const { raw, furtherEmails, reader } = reading;
  const fitted: Json = { ...body };
  if (furtherEmails.length > 0) {
    fitted['other_emails'] = union(stored['other_emails'], furtherEmails);
    reading.cut.stored = cutEmails(fitted);
    if (invalid === 'fail' && reading.cut.stored.length > 0) throw validationFailed(reading.cut.stored);
  }
  const country = stored['location_country'];
  if (body['location_country'] === undefined && typeof country === 'string' && country !== '') {
    const { phone_numbers: phones, mobile_phone: mobile } = body;
    if (Array.isArray(phones) && phones !== raw['phone_numbers'])
      fitted['phone_numbers'] = phones.flatMap((phone: PhoneNumber) =>
        phone.country_code === '' ? reader.phones.read(phone.number, country) : phone,
      );
    if (typeof mobile === 'string') fitted['mobile_phone'] = reader.phones.readText(mobile, country) ?? mobile;
  }
  reading.asStored = new Set(
    Object.keys(raw).filter((field) => field in stored && isDeepStrictEqual(stored[field], raw[field])),
  );
  for (const field of reading.asStored) fitted[field] = raw[field];
  return fitted;
}

/** Returns the warnings that apply to a record. For a stored record, call it after `fitToStored`. */
export function warningsOf(item: object, warnings: readonly Fault[]): Fault[] {
  const { asStored = new Set(), cut = { new: [] } } = readings.get(item) ?? {};
  const others = warnings.filter((fault) => !cut.new.includes(fault) && !asStored.has(tokensOf(fault.path)[0] ?? ''));
  return [...others, ...(cut.stored ?? cut.new)];
}
