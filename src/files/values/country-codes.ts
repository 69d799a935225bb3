import { LRUCache } from 'lru-cache';
import { formats } from '../../schemas/base/formats.ts';
import { words } from '../../text/fold.ts';

/** Converts a country name to its ISO 3166-1 alpha-2 code. Returns `""` when the name is unknown or ambiguous. */
export type CountryCodes = (name: string) => string;

let loading: Promise<CountryCodes> | undefined;

/**
 * Returns the function that converts country names to codes. The first call loads the names in about eighty languages,
 * which takes 100 ms.
 */
export const countryCodes = (): Promise<CountryCodes> => (loading ??= load());

async function load(): Promise<CountryCodes> {
  const { default: names } = await import('i18n-iso-countries');
  const codes = new Map<string, Set<string>>();
  const add = (name: string, code: string) => {
    const key = keyOf(name);
    codes.set(key, (codes.get(key) ?? new Set()).add(code));
  };
  // Node's own English names are the short ones that people write: Syria, not Syrian Arab Republic.
  const short = new Intl.DisplayNames('en', { type: 'region' });
  for (const [alpha2, alpha3] of Object.entries(names.getAlpha2Codes()))
    for (const name of [alpha2, alpha3, short.of(alpha2)!]) add(name, alpha2);
  // Parts of the United Kingdom stand as countries in many files.
  for (const name of ['England', 'Scotland', 'Wales', 'Northern Ireland']) add(name, 'GB');
  // Signs of cars, which Europeans use as codes.
  for (const sign of carSigns.split(' ')) add(...(sign.split('=') as [string, string]));
  for (const language of names.getSupportedLanguages())
    for (const [alpha2, given] of Object.entries(names.getNames(language, { select: 'all' })))
      for (const name of given) add(name, alpha2);
  return memoised((name) => only(codes.get(keyOf(name))));
}

const carSigns = 'A=AT B=BE BRD=DE D=DE E=ES F=FR H=HU I=IT L=LU N=NO P=PT S=SE';

/** A file has the same few countries again and again. */
function memoised(codeOf: CountryCodes): CountryCodes {
  const known = new LRUCache<string, string>({ max: 1_000 });
  return (name) => {
    if (name.length > longestKnown) return codeOf(name);
    const code = known.get(name) ?? codeOf(name);
    known.set(name, code);
    return code;
  };
}

/** A longer text is no country, and not worth its memory. */
const longestKnown = 100;

/** Returns the form of a country name that is used for look-ups: lower case, without accents and punctuation. */
const keyOf = (name: string): string => words(name).join(' ');

/**
 * Returns the only country code in `codes`, or `""` if `codes` has no code or several. A few country names, such as
 * Congo, have two codes.
 */
function only(codes: Set<string> | undefined): string {
  const [code, second] = codes ?? [];
  return code !== undefined && second === undefined && formats.country(code) ? code : '';
}
