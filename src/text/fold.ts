import { isAscii, withAsciiDomain } from './domains.ts';

export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

/** Returns true if PostgreSQL can store the text: it has no NUL character and no lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** Replaces what PostgreSQL cannot store. Few programs can read NUL characters, either. */
export const toStorable = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd');

/**
 * Matches white space and invisible marks, such as zero-width characters and direction marks. Texts copied from phones
 * and web pages often begin or end with them.
 */
const blank = /[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;

export function trimText(given: string): string {
  const text = given.trim(); // faster for long white space
  let [start, end] = [0, text.length];
  while (start < end && blank.test(text[start]!)) start += 1;
  while (end > start && blank.test(text[end - 1]!)) end -= 1;
  return text.slice(start, end);
}

const names = new Set(['name', 'first_name', 'middle_name', 'last_name', 'company_name']);
const codes = new Set(['location_country', 'currency']);

export function normalise<T extends object>(fields: T): T {
  const entries = Object.entries(fields).map(([field, value]) => [field, normaliseField(field, value)]);
  return Object.fromEntries(entries) as T;
}

function normaliseField(field: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (names.has(field)) return value.trim();
  return codes.has(field) ? value.toUpperCase() : value;
}

export const emailKey = (address: string): string => withAsciiDomain(address.trim()).toLowerCase();

/** Returns true for `n/a`, and for a text without letters and digits, such as `-`. Such texts identify nobody. */
export const isPlaceholder = (text: string): boolean => /^\s*#?n\/a\s*$|^[^\p{L}\p{N}]*$/iu.test(text);

/**
 * Folds a text: lower case, no accents, single spaces, domains of e-mail addresses in ASCII. A folded text does not
 * change when it is folded again.
 */
export function fold(text: string): string {
  // Steps: Unicode NFKD; remove the marks U+0300–U+036F; full case folding (Unicode 17, CaseFolding.txt C + F); replace
  // letters such as `ø` by their base letter; NFC; trim; replace each run of white space by one space.
  //
  // The database stores folded texts and compares them as bytes. They must all be folded again if this function changes,
  // or if a new version of Node folds an existing letter differently (Unicode promises that none will).
  const letters = isAscii(text) ? text.toLowerCase() : withAsciiDomains(foldLetters(withAsciiDomains(text)));
  return collapsed.test(letters) ? letters : letters.replace(whiteSpace, ' ').trim();
}

export const words = (text: string): string[] => fold(text).match(/[\p{L}\p{M}\p{Nd}]+/gu) ?? [];

const cacheLimits = { halfSize: 10_000, longest: 64 };

/**
 * Caches the results of a pure function for recent texts of at most `cacheLimits.longest` UTF-16 units. Callers share
 * the results and must not change them. When the cache is full, its older half is deleted.
 */
export function memoize<T extends string | object>(make: (text: string) => T): (text: string) => T {
  let recent = new Map<string, T>();
  let older = recent;
  return (text) => {
    const known = recent.get(text);
    if (known !== undefined) return known;
    const result = older.get(text) ?? make(text);
    if (text.length > cacheLimits.longest) return result;
    if (recent.size >= cacheLimits.halfSize) [recent, older] = [new Map(), recent];
    recent.set(text, result);
    return result;
  };
}

export const wordSet = (list: string): ReadonlySet<string> => new Set(list.split(' '));

/**
 * Converts domains of e-mail addresses to ASCII. Otherwise folding would make `müller.example` and `muller.example`
 * equal, which are two domains.
 */
const withAsciiDomains = (text: string): string =>
  text.includes('@') ? text.replace(addressLike, withAsciiDomain) : text;

const addressLike = /[^\s\u0085]+/g;

const whiteSpace = /[\s\u0085]+/g;
const collapsed = /^(?:[^\s\u0085]+(?: [^\s\u0085]+)*)?$/;

const foldLetters = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]+/g, '')
    .toUpperCase()
    .toLowerCase()
    .replace(exceptional, (letter) => exceptions.get(letter)!)
    .normalize('NFC');

/**
 * Letters that `toUpperCase` followed by `toLowerCase` folds differently from Unicode, with Unicode's case folding. For
 * example, sigma has two lower-case forms.
 */
const caseExceptions: [string, string][] = [
  ['ς', 'σ'],
  ['ß', 'ss'],
  ...cherokee(0xab70, 0xabbf, 0x13a0),
  ...cherokee(0x13f8, 0x13fd, 0x13f0),
];

function cherokee(first: number, last: number, capital: number): [string, string][] {
  const pair = (_: unknown, i: number): [string, string] => [
    String.fromCodePoint(first + i),
    String.fromCodePoint(capital + i),
  ];
  return Array.from({ length: last - first + 1 }, pair);
}

/**
 * Letters that Unicode does not split into base and accent, with the letters that people type instead, such as `ae` for
 * `æ`.
 */
const bases: [base: string, letters: string][] = [
  ['ae', 'æ'],
  ['oe', 'œ'],
  ['th', 'þ'],
  ['b', 'ƀɓ'],
  ['c', 'ȼƈ'],
  ['d', 'đðɗɖ'],
  ['e', 'ɇ'],
  ['f', 'ƒ'],
  ['g', 'ǥɠ'],
  ['h', 'ħ'],
  ['i', 'ɨ'],
  ['j', 'ȷɉ'],
  ['k', 'ƙ'],
  ['l', 'łƚ'],
  ['n', 'ŋɲ'],
  ['o', 'øɵ'],
  ['p', 'ƥ'],
  ['r', 'ɍ'],
  ['t', 'ŧƭⱦ'],
  ['u', 'ʉ'],
  ['v', 'ʋ'],
  ['w', 'ⱳ'],
  ['y', 'ɏƴ'],
  ['z', 'ƶȥ'],
];

/**
 * Returns an SQL expression that folds a text like `fold`, except for non-ASCII domains. For small tables that do not
 * store folded texts.
 * @param text SQL expression
 */
export function foldInSql(text: string): string {
  const letters = bases.flatMap(([base, all]) => Array.from(all, (letter): [string, string] => [letter, base]));
  // To this program's upper case, a dotless i is an i.
  const single: [string, string][] = [['ı', 'i'], ...letters.filter(([, base]) => base.length === 1)];
  const [from, to] = [0, 1].map((side) => single.map((pair) => pair[side]).join(''));
  const decomposed = `regexp_replace(normalize(${text}, nfkd), '[\\u0300-\\u036f]+', '', 'g')`;
  const lower = `translate(casefold(${decomposed} collate "pg_unicode_fast") collate "C", '${from}', '${to}')`;
  const replaced = letters
    .filter(([, base]) => base.length > 1)
    .reduce((one, [letter, base]) => `replace(${one}, '${letter}', '${base}')`, lower);
  const folded = `case when octet_length(${text}) = length(${text}) then lower(${text} collate "C") else normalize(${replaced}, nfc) end`;
  return `btrim(regexp_replace(${folded}, '[${spaces}]+', ' ', 'g'), ' ') collate "C"`;
}

const spaces = '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff';

const exceptions = new Map([
  ...caseExceptions,
  ...bases.flatMap(([base, letters]) => Array.from(letters, (letter): [string, string] => [letter, base])),
]);
const exceptional = new RegExp(`[${[...exceptions.keys()].join('')}]`, 'gu');

const fewest = 5;

const digitsIn = (text: string): string => text.replace('(0)', '').replaceAll(/\D/g, '');

export interface PhoneNumber {
  country_code: string;
  number: string;
}

/**
 * Returns the digits of a contact's phone numbers, separated by blanks. Adds a second form without the 0 for numbers
 * such as `+49 030 …`, which mean `+49 30 …`.
 */
export function phoneDigits(numbers: readonly PhoneNumber[], mobile: string | null): string {
  const all = numbers.flatMap(({ country_code, number }) => {
    const [code, digits] = [digitsIn(country_code), digitsIn(number)];
    return code !== '' && digits.startsWith('0') ? [code + digits, code + digits.slice(1)] : [code + digits];
  });
  return [...all, digitsIn(mobile ?? '')].filter((one) => one.length >= fewest).join(' ');
}

const numberPart = /^[\d+/()[\].-]+$/;

/**
 * Splits a search text into phone numbers of at least five digits and the rest. Joins adjacent parts to one number.
 * @returns the numbers as written, and their digits without a leading `+`, `00` or `0`
 */
export function numbersIn(text: string): { numbers: { written: string; digits: string }[]; rest: string } {
  const groups: string[][] = [];
  for (const word of text.split(/\s+/)) {
    if (!/[\p{L}\p{N}]/u.test(word)) continue; // a sign between numbers
    const last = groups.at(-1);
    if (last && numberPart.test(word) && numberPart.test(last[0]!)) last.push(word);
    else groups.push([word]);
  }
  const written = groups.map((group) => group.join(' '));
  const searched = (one: string): string => digitsIn(one).replace(/^00?/, '');
  const isNumber = (one: string): boolean => numberPart.test(one.replaceAll(' ', '')) && searched(one).length >= fewest;
  return {
    numbers: written.filter(isNumber).map((one) => ({ written: one, digits: searched(one) })),
    rest: written.filter((one) => !isNumber(one)).join(' '),
  };
}

/**
 * Legal forms of companies by country or language, in lower case, without accents, spaces and punctuation. `sa` stands
 * for `s. a.` and `s.a.` too.
 */
const legalForms: Record<string, string> = {
  english:
    'inc incorporated corp corporation co company ltd limited llc lc llp lp lllp pllc plc pc cic cio ulc pty ptyltd proprietarylimited pte pteltd pvt pvtltd privatelimited publiclimitedcompany',
  german:
    'gmbh ggmbh mbh ag kg kgaa ohg gbr ug ughaftungsbeschrankt haftungsbeschrankt ek ekfr ekfm ev eg se partg partgmbb aktiengesellschaft gesellschaftmitbeschrankterhaftung gesellschaftmbh gesmbh kommanditgesellschaft',
  french: 'sa sas sasu sarl sarlau eurl snc sca scs sci scop scrl societeanonyme cie',
  spanish:
    'sl slu slp sll sau sociedadanonima sociedadlimitada saic sadecv sabdecv sapidecv sderldecv srldecv spa eirl',
  portuguese: 'lda ltda sgps eireli',
  italian: 'srl srls spa sapa snc scarl societaperazioni',
  dutch: 'bv nv vof cv bvba cvba sprl asbl vzw',
  nordic:
    'ab publ aktiebolag aktiebolaget hb asa as ans nuf aps ivs oy oyj oyab abp ky ehf hf aktieselskab anpartsselskab',
  polish: 'spzoo spolkazoo spolkazograniczonaodpowiedzialnoscia spj spk psa spolkaakcyjna',
  central: 'sro vos ks spolsro kft nyrt zrt kkt doo jdoo ood eood ead',
  baltic: 'uab sia ou',
  greek: 'ae epe',
  turkish: 'ltdsti anonimsirketi limitedsirketi sti',
  russian: 'ооо оао зао пао ао тоо тов ooo oao zao pao',
  asian: 'kk sdnbhd bhd berhad tbk',
  other: 'jsc ojsc cjsc pjsc fze fzco fzllc dmcc wll saog',
};

const leadingForms = wordSet('ооо оао зао пао ао тоо тов ooo oao zao pao pt uab sia aktiebolaget');

const joinedForms = (
  '株式会社 有限会社 合同会社 合資会社 合名会社 一般社団法人 ' +
  '股份有限公司 有限责任公司 有限責任公司 有限公司 ' +
  '주식회사 유한회사 유한책임회사'
)
  .split(' ')
  .map(fold);

const bracketedForms = new Set(['株', '有', '주', '유'].map(fold));

const forms = new Set([...Object.values(legalForms).flatMap((line) => line.split(' ')), ...joinedForms]);

/** Words between the name and a legal form, as in `Smith & Co` or `Müller und Co`. */
const connectors = new Set(['and', 'und', 'et', 'y', 'e', 'i', 'og', 'och', 'en', 'de']);

const maxWords = 7;

/**
 * Returns the folded name of a company without legal forms and punctuation. `ACME, Inc.` and `Acme Incorporated` both
 * become `acme`. Keeps a name that is only a legal form. Returns `""` for a name without letters and digits.
 */
export function externalName(name: string): string {
  return withoutTrailing(withoutLeading(wordsOf(name))).join(' ');
}

function wordsOf(name: string): string[] {
  const text = fold(name).replaceAll(/['’`´ʼ.]/g, '');
  const found = text.match(/[\p{L}\p{M}\p{Nd}]+/gu) ?? [];
  return withoutBracketed(found).map(withoutJoined);
}

function withoutBracketed(words: string[]): string[] {
  const left = words.filter((word) => !bracketedForms.has(word));
  return left.length > 0 ? left : words;
}

function withoutJoined(word: string): string {
  for (const form of joinedForms) {
    if (word.length <= form.length) continue;
    if (word.startsWith(form)) return word.slice(form.length);
    if (word.endsWith(form)) return word.slice(0, -form.length);
  }
  return word;
}

function withoutLeading(words: string[]): string[] {
  const [first] = words;
  return words.length > 1 && leadingForms.has(first!) ? words.slice(1) : words;
}

function withoutTrailing(words: string[]): string[] {
  const length = lengthOfForm(words);
  if (length === 0) return words;
  const rest = words.slice(0, -length);
  while (rest.length > 1 && connectors.has(rest.at(-1)!)) rest.pop();
  return withoutTrailing(rest);
}

function lengthOfForm(words: readonly string[]): number {
  for (let length = Math.min(maxWords, words.length - 1); length > 0; length -= 1)
    if (forms.has(words.slice(-length).join(''))) return length;
  return 0;
}
