import { fullFormats } from 'ajv-formats/dist/formats.js';
import countryCodes from 'i18n-iso-countries/codes.json' with { type: 'json' };
import { lengthOf } from '../code-points.ts';

// Kosovo's XK is in wide use, but in ISO 3166-1's range for private use and so no country of the standard.
const countries = new Set(countryCodes.map(([alpha2]) => alpha2).filter((code) => code !== 'XK'));

// What is in circulation comes with the runtime; beside it ISO 4217 lists funds, metals, units of account and codes for tests.
const uncirculated = 'BOV CHE CHW CLF COU MXV USN UYI UYW VED XAD XAG XAU XBA XBB XBC XBD XPD XPT XTS XUA XXX';
const currencies = new Set([...Intl.supportedValuesOf('currency'), ...uncirculated.split(' ')]);

/** Checks behind the `format` of a string schema, beside the length that the schema itself states. */
export const formats: Record<string, (text: string) => boolean> = {
  uuid: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text),
  email: (text) => (fullFormats.email as RegExp).test(text),
  'date-time': isInstant,
  name: (text) => isLengthBetween(text.trim(), 1, 255),
  'key-name': (text) => isLengthBetween(text.trim(), 1, 120),
  // Letters first: the upper case of ß is SS, and SS is South Sudan; that of ı is I.
  country: (text) => text === '' || (/^[a-z]{2}$/i.test(text) && countries.has(text.toUpperCase())),
  currency: (text) => /^[a-z]{3}$/i.test(text) && currencies.has(text.toUpperCase()),
};

/** Characters are counted as code points, as JSON Schema's own length keywords do. */
function isLengthBetween(text: string, least: number, most: number): boolean {
  const length = lengthOf(text);
  return length >= least && length <= most;
}

const instantPattern = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|[+-](\d{2}):(\d{2}))$/;

/**
 * RFC 3339 date-time with an offset that names a real instant within the years 0001–9999 in UTC. Leap seconds are not
 * accepted: neither JavaScript nor Postgres can keep one.
 */
export function isInstant(text: string): boolean {
  const match = instantPattern.exec(text);
  if (!match) return false;
  const [year, month, day, hour, minute, second, offsetHour = 0, offsetMinute = 0] = match
    .slice(1)
    .map((part) => Number(part ?? 0));
  if (hour! > 23 || minute! > 59 || second! > 59 || offsetHour > 23 || offsetMinute > 59) return false;
  if (month! < 1 || month! > 12 || day! < 1 || day! > daysInMonth(year!, month!)) return false;
  const utc = new Date(text.toUpperCase()).getTime();
  return utc >= firstInstant && utc <= lastInstant;
}

const firstInstant = Date.parse('0001-01-01T00:00:00.000Z');
const lastInstant = Date.parse('9999-12-31T23:59:59.999Z');

function daysInMonth(year: number, month: number): number {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]!;
}
