import { fullFormats } from 'ajv-formats/dist/formats.js';
import countryCodes from 'i18n-iso-countries/codes.json' with { type: 'json' };
import { lengthOf } from '../text/fold.ts';
import { domainOf, maxAddressLength, withAsciiDomain } from '../text/domains.ts';
import { canonicalId } from '../text/ids.ts';

/**
 * Country codes of ISO 3166-1 alpha-2, in upper case. Without `XK`, which many use for Kosovo, because it is in the
 * range for private use.
 */
export const countries: ReadonlySet<string> = new Set(
  countryCodes.map(([alpha2]) => alpha2!).filter((code) => code !== 'XK'),
);

/** Returns the two-letter code of the country with this English name or three-letter code. */
export function countryCode(name: string): string | undefined {
  const names = new Intl.DisplayNames('en', { type: 'region' });
  const given = name.trim().toLowerCase();
  return countryCodes.find(([alpha2, alpha3]) =>
    [names.of(alpha2!)!, alpha3!].some((one) => one.toLowerCase() === given),
  )?.[0];
}

// The runtime knows the currencies in circulation. ISO 4217 also lists funds, metals, units of account and test codes.
const uncirculated = 'BOV CHE CHW CLF COU MXV USN UYI UYW VED XAD XAG XAU XBA XBB XBC XBD XPD XPT XTS XUA XXX';
const currencies = new Set([...Intl.supportedValuesOf('currency'), ...uncirculated.split(' ')]);

const maxEmailLength = 254;
const emailPattern = fullFormats.email as RegExp;

const isEmail = (text: string): boolean => text.length <= maxEmailLength && emailPattern.test(text);

export const formats = {
  uuid: (text) => canonicalId(text) !== undefined,
  email: (text) => text.length <= maxEmailLength && isEmail(withAsciiDomain(text)),
  'date-time': isInstant,
  'feed-start': (text) => text === 'start' || text === 'now' || isInstant(text),
  name: (text) => isLengthBetween(text.trim(), 1, 255),
  'key-name': (text) => isLengthBetween(text.trim(), 1, 120),
  // Test for letters first: the upper case of ß is SS (South Sudan), and the upper case of ı is I.
  country: (text) => text === '' || (/^[a-z]{2}$/i.test(text) && countries.has(text.toUpperCase())),
  domain: (text) => domainOf(text) !== undefined,
  currency: (text) => /^[a-z]{3}$/i.test(text) && currencies.has(text.toUpperCase()),
} satisfies Record<string, (text: string) => boolean>;
export type Format = keyof typeof formats;

/** Returns true for an e-mail address. A prospect's field can also contain other text, such as `n/a`. */
export const isEmailAddress = (text: string): boolean => formats.email(text);

const documentedEmail = emailPattern.source
  .replaceAll('a-z', 'A-Za-z')
  .replace(/@.*$/, (domain) => domain.replaceAll('A-Za-z0-9', String.raw`A-Za-z0-9\u00a1-\uffff`));

const label = String.raw`[A-Za-z0-9\u00a1-\uffff]([A-Za-z0-9\u00a1-\uffff-]{0,61}[A-Za-z0-9\u00a1-\uffff])?`;
const documentedDomain = String.raw`([A-Za-z][A-Za-z0-9+.-]*://)?(${label}[.])+${label}[.]?(:[0-9]{1,5})?([/?#]\S*)?`;

const documentedInstant =
  '[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3])(:[0-5][0-9]){2}([.][0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])';

/**
 * Standard schemas that replace this program's own formats in the OpenAPI document. A pattern accepts all valid
 * strings, and a few invalid ones, such as February 30. A schema with a title becomes a component.
 */
export const documentedFormats: Record<
  string,
  { format?: string; pattern?: string; maxLength?: number; title?: string }
> = {
  uuid: { format: 'uuid', pattern: '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' },
  email: { format: 'idn-email', pattern: documentedEmail, maxLength: maxEmailLength },
  'date-time': { format: 'date-time', pattern: `^${documentedInstant}$` },
  'feed-start': { pattern: `^(start|now|${documentedInstant})$` },
  domain: { pattern: `^${documentedDomain}$`, maxLength: maxAddressLength },
  name: { pattern: trimmedPattern(255) },
  'key-name': { pattern: trimmedPattern(120) },
  country: { title: 'CountryCode', pattern: `^(|${codesPattern([...countries])})$` },
  currency: { title: 'CurrencyCode', pattern: `^(${codesPattern([...currencies])})$` },
};

function trimmedPattern(max: number): string {
  return String.raw`^\s*\S([\s\S]{0,${max - 2}}\S)?\s*$`;
}

function codesPattern(codes: readonly string[]): string {
  const lastLetters = new Map<string, string>();
  for (const code of codes.toSorted()) {
    const beginning = code.slice(0, -1);
    lastLetters.set(beginning, (lastLetters.get(beginning) ?? '') + code.slice(-1));
  }
  const eitherCase = (letters: string) => `[${letters}${letters.toLowerCase()}]`;
  return [...lastLetters]
    .map(([beginning, last]) => [...beginning].map(eitherCase).join('') + eitherCase(last))
    .join('|');
}

function isLengthBetween(text: string, least: number, max: number): boolean {
  const length = lengthOf(text);
  return length >= least && length <= max;
}

const instantPattern = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|[+-](\d{2}):(\d{2}))$/;

export function isInstant(text: string): boolean {
  const match = instantPattern.exec(text);
  if (!match) return false;
  // JavaScript and Postgres cannot store leap seconds.
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
