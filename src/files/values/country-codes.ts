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
  const codes = new CodesByName();
  // Node's own English names are the short ones that people write: Syria, not Syrian Arab Republic.
  const short = new Intl.DisplayNames('en', { type: 'region' });
  for (const [alpha2, alpha3] of Object.entries(names.getAlpha2Codes()))
    for (const name of [alpha2, alpha3, short.of(alpha2)!]) codes.add(name, alpha2);
  for (const [alpha2, others] of Object.entries(otherNames))
    for (const name of others.split('|')) codes.add(name, alpha2);
  // Signs of cars, which Europeans use as codes.
  for (const sign of carSigns.split(' ')) codes.add(...(sign.split('=') as [string, string]));
  for (const language of names.getSupportedLanguages())
    for (const [alpha2, given] of Object.entries(names.getNames(language, { select: 'all' })))
      for (const name of given) codes.add(name, alpha2);
  return memoised((name) => codes.find(name));
}

const carSigns = 'A=AT B=BE BRD=DE D=DE E=ES F=FR H=HU I=IT L=LU N=NO P=PT S=SE';

/**
 * Names that the library lacks: parts of a country that stand as one in many files, and official names whose words are not
 * those of the short name.
 */
const otherNames: Record<string, string> = {
  AE: 'Emirates|UAE',
  AR: 'Argentine Republic|República Argentina',
  CD: 'Congo-Kinshasa|DR Congo|DRC|Congo (Kinshasa)',
  CG: 'Republic of the Congo|Congo-Brazzaville|Congo (Brazzaville)',
  CH: 'Swiss Confederation|Schweizerische Eidgenossenschaft|Confédération suisse',
  CN: "People's Republic of China|PR China|PRC|Mainland China",
  CV: 'Cape Verde',
  CZ: 'Czech Republic',
  FR: 'French Republic|République française',
  GA: 'Gabonese Republic',
  GB: 'England|Scotland|Wales|Northern Ireland|United Kingdom of Great Britain and Northern Ireland|U.K.',
  GR: 'Hellenic Republic',
  HK: 'Hong Kong SAR|Hong Kong S.A.R.|Hong Kong Special Administrative Region of China',
  IE: 'Republic of Ireland|Eire',
  IT: 'Italian Republic|Repubblica italiana',
  KG: 'Kyrgyz Republic|Kirgizia',
  KP: "Democratic People's Republic of Korea|DPRK",
  KR: 'Republic of Korea',
  LB: 'Lebanese Republic',
  MM: 'Burma',
  MO: 'Macao SAR|Macau SAR|Macao S.A.R.|Macau',
  MX: 'United Mexican States|Estados Unidos Mexicanos',
  NL: 'Holland',
  PT: 'Portuguese Republic|República Portuguesa',
  SK: 'Slovak Republic',
  SZ: 'Swaziland',
  TG: 'Togolese Republic',
  TL: 'East Timor',
  TN: 'Tunisian Republic',
  TW: 'Republic of China|Taiwan, Province of China',
  US: 'United States of America|Estados Unidos de América',
};

/** A longer text is not a country (characters). */
const longestName = 100;

/** Codes of countries by the words of their names, without regard to case, accents and punctuation. */
class CodesByName {
  readonly #byName = new Map<string, Set<string>>();
  /** In any order, and without words such as `of`: `Iran, Islamic Republic of`. */
  readonly #byWords = new Map<string, Set<string>>();

  add(name: string, code: string): void {
    const all = words(name);
    put(this.#byName, all.join(' '), code);
    put(this.#byWords, inAnyOrder(all), code);
  }

  find(name: string): string {
    if (name.length > longestName) return '';
    const all = words(name);
    const found = only(this.#byName.get(all.join(' '))) || only(this.#byWords.get(inAnyOrder(all)));
    return found || this.#withoutForm(all);
  }

  /** Reads `Plurinational State of Bolivia` as `Bolivia`. */
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

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(' '));

const connectors = wordsOf('of the and de du des del d da do di la le les l el und et y e');

/** Kinds of states in official names. */
const forms = wordsOf(
  'republic republik bundesrepublik republique republica repubblica kingdom konigreich royaume reino regno state staat etat estado stato ' +
    'commonwealth principality furstentum principaute principado duchy grossherzogtum sultanate emirate union confederation federation',
);

/** What stands around them. */
const formWords = wordsOf(
  'islamic federal federative federativa federale democratic people s plurinational bolivarian united cooperative co operative arab ' +
    `socialist independent oriental eastern hashemite grand ${[...connectors].join(' ')}`,
);

/** Without the form, these names are those of several states, or of a part of another. */
const severalOf = wordsOf('china congo korea georgia');

const inAnyOrder = (all: readonly string[]): string =>
  all
    .filter((word) => !connectors.has(word))
    .toSorted()
    .join(' ');

/** A file has the same few countries again and again. */
function memoised(codeOf: CountryCodes): CountryCodes {
  const known = new LRUCache<string, string>({ max: 1_000 });
  return (name) => {
    if (name.length > longestName) return '';
    const code = known.get(name) ?? codeOf(name);
    known.set(name, code);
    return code;
  };
}

/**
 * Returns the only country code in `codes`, or `""` if `codes` has no code or several. A few country names, such as
 * Congo, have two codes.
 */
function only(codes: Set<string> | undefined): string {
  const [code, second] = codes ?? [];
  return code !== undefined && second === undefined && formats.country(code) ? code : '';
}
