import { isDeepStrictEqual } from 'node:util';
import type { Fault } from '../../errors.ts';
import { pointerTo } from '../../text/json-pointer.ts';
import type { PhoneNumber } from './phones.ts';
import {
  InvalidCell,
  isNothing,
  readEmails,
  readUrl,
  readYear,
  type ValueKind,
  type ValueReader,
} from './read-value.ts';

type Json = Record<string, unknown>;

/** A column, and the place of its values in an item: a field, and a property if the field is an object. */
interface Column {
  kind?: ValueKind | undefined;
  item: readonly [field: string, part?: string];
}

/** How an item was read. The same cells can mean something else for a stored record: see `fitToStored`. */
interface Reading {
  /** The item with the values as they stand in the cells. */
  raw: Json;
  /** E-mail addresses that stood in another field than `other_emails`. */
  furtherEmails: string[];
  /** Phone numbers were read without a country, as far as they have no country code. */
  reader: ValueReader | undefined;
}

const readings = new WeakMap<object, Reading>();

/**
 * Converts the values of an item from the form in which people write them to that of the API. Leaves out values such as
 * `n/a`.
 * @param texts of the columns' cells
 */
export function readValues(
  reader: ValueReader,
  columns: readonly Column[],
  raw: Json,
  texts: readonly (string | undefined)[],
): { item: Json; faults: Fault[] } {
  const item: Json = { ...raw, ...(raw['company'] ? { company: { ...raw['company'] } } : {}) };
  const faults: Fault[] = [];
  const furtherEmails: string[] = [];
  const convert = (isPhone: boolean) => {
    const country = typeof item['location_country'] === 'string' ? item['location_country'] : '';
    for (const [i, { kind, item: path }] of columns.entries()) {
      if (kind === undefined || (kind === 'phone' || kind === 'phones') !== isPhone) continue;
      if (kind === 'phones' && texts[i]?.startsWith('[')) continue; // JSON means what it says
      try {
        change(item, path, (value) => readAs(kind, value, { reader, country, furtherEmails }));
      } catch (error) {
        if (!(error instanceof InvalidCell)) throw error;
        faults.push({ path: pointerTo(path.filter((token) => token !== undefined)), message: error.message });
      }
    }
  };
  convert(false);
  convert(true); // phone numbers are read for the country
  if (furtherEmails.length > 0) item['other_emails'] = union(item['other_emails'], furtherEmails);
  if (!isDeepStrictEqual(item, raw))
    readings.set(item, { raw, furtherEmails: raw['other_emails'] === undefined ? furtherEmails : [], reader });
  return { item, faults };
}

/** Replaces the value at a path, if there is one. Undefined removes it. */
function change(item: Json, [field, part]: Column['item'], convert: (value: unknown) => unknown): void {
  const [object, name] = part === undefined ? [item, field] : [item[field] as Json | null | undefined, part];
  const value = object?.[name] ?? null;
  if (value === null) return;
  const converted = convert(value);
  if (converted === undefined) delete object![name];
  else object![name] = converted;
}

interface Context {
  reader: ValueReader;
  country: string;
  furtherEmails: string[];
}

/** For a trimmed text that is not empty. */
const readTexts: Record<Exclude<ValueKind, 'phones' | 'emails'>, (text: string, context: Context) => unknown> = {
  text: (text) => text,
  name: (text) => text,
  country: (text, { reader }) => reader.country(text),
  year: readYear,
  url: readUrl,
  phone: (text, { reader, country }) => reader.phone(text, country),
  email: (text, { furtherEmails }) => {
    const [first, ...others] = readEmails(text);
    furtherEmails.push(...others);
    return first;
  },
};

/** @throws InvalidCell */
function readAs(kind: ValueKind, value: unknown, context: Context): unknown {
  if (kind === 'phones')
    return context.reader.phones((value as PhoneNumber[]).map(asWritten).filter(isSomething), context.country);
  if (kind === 'emails') return [...new Set((value as string[]).filter(isSomething).flatMap(readEmails))];
  if (typeof value !== 'string') return value;
  const text = value.trim();
  return text === '' || (kind !== 'name' && isNothing(text)) ? undefined : readTexts[kind](text, context);
}

const asWritten = ({ country_code, number }: PhoneNumber): string => `${country_code} ${number}`.trim();

const isSomething = (text: string): boolean => text !== '' && !isNothing(text);

const union = (emails: unknown, more: readonly string[]): string[] => [
  ...new Set([...((emails as string[] | null | undefined) ?? []), ...more]),
];

/** Of a contact. */
const maxOtherEmails = 20;

/**
 * Returns the body that changes a stored record as the file says. A value that is exactly what the record holds stays
 * as it is. Phone numbers without a country code are read for the record's country if the file has none.
 */
export function fitToStored(body: Json, stored: Json): Json {
  const reading = readings.get(body);
  if (!reading) return body;
  const { raw, furtherEmails, reader } = reading;
  const fitted: Json = { ...body };
  if (furtherEmails.length > 0)
    fitted['other_emails'] = union(stored['other_emails'], furtherEmails).slice(0, maxOtherEmails);
  const country = stored['location_country'];
  if (reader && body['location_country'] === undefined && typeof country === 'string' && country !== '') {
    const { phone_numbers: phones, mobile_phone: mobile } = body;
    if (Array.isArray(phones) && phones !== raw['phone_numbers'])
      fitted['phone_numbers'] = phones.map((phone: PhoneNumber) =>
        phone.country_code === '' ? reader.phones([phone.number], country)[0] : phone,
      );
    if (typeof mobile === 'string') fitted['mobile_phone'] = reader.phone(mobile, country);
  }
  for (const [field, value] of Object.entries(raw))
    if (field in stored && isDeepStrictEqual(stored[field], value)) fitted[field] = value;
  return fitted;
}
