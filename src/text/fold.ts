import { withAsciiDomain } from './domains.ts';

/** Returns the length in code points, as JSON Schema counts. */
export function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

/** Returns whether PostgreSQL can store a text: it takes no NUL character and no lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/**
 * White space, and marks that nobody sees: zero-width characters, and those that set the direction of writing. Phones, web
 * pages and address books leave them around what people copy.
 */
const blank = /[\s\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;

/** Removes white space and invisible marks at both ends of a text. */
export function trimText(given: string): string {
  const text = given.trim(); // faster for long white space
  let [start, end] = [0, text.length];
  while (start < end && blank.test(text[start]!)) start += 1;
  while (end > start && blank.test(text[end - 1]!)) end -= 1;
  return text.slice(start, end);
}

/** Fields stored without white space at start and end. */
const names = new Set(['name', 'first_name', 'last_name', 'company_name']);
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

/** True for `n/a`, and for a text without letters and digits, such as `-`: what many people have identifies nobody. */
export const isPlaceholder = (text: string): boolean => /^\s*#?n\/a\s*$|^[^\p{L}\p{N}]*$/iu.test(text);

/**
 * Folds a text: lower case, no accents, single spaces, and the domains of e-mail addresses in ASCII. Folding again does not
 * change the result.
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

// eslint-disable-next-line no-control-regex
const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

/** `müller.example` and `muller.example` are two domains. */
const withAsciiDomains = (text: string): string =>
  text.includes('@') ? text.replace(addressLike, withAsciiDomain) : text;

const addressLike = /[^\s\u0085]+/g;

/** White space as Unicode defines it: JavaScript's `\s`, and U+0085. */
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
 * Letters for which `toUpperCase` and then `toLowerCase` does not give the Unicode case folding, with their case
 * folding. E.g. sigma has two lower-case forms, and Cherokee letters are folded to capitals.
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
 * Letters that Unicode does not split into base and accent, by what people type instead, e.g. `ae` for `æ`: ligatures,
 * thorn, eth, eng, dotless j, and letters of living alphabets with a stroke or a hook.
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
 * Returns an SQL expression that folds a text as `fold` does, apart from domains that are not ASCII. For tables that store
 * no folded texts, because a customer has few records in them.
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

/** JavaScript's `\s` and U+0085, as a class of PostgreSQL's regular expressions. */
const spaces = '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff';

const exceptions = new Map([
  ...caseExceptions,
  ...bases.flatMap(([base, letters]) => Array.from(letters, (letter): [string, string] => [letter, base])),
]);
const exceptional = new RegExp(`[${[...exceptions.keys()].join('')}]`, 'gu');

/** Fewest digits of a number that searches look for in phone numbers. */
const fewest = 5;

const digitsIn = (text: string): string => text.replace('(0)', '').replaceAll(/\D/g, '');

export interface PhoneNumber {
  country_code: string;
  number: string;
}

/**
 * Returns the digits of a contact's phone numbers, divided by blanks. A number with a country code that begins with 0 also
 * stands without it: people write `+49 030 …` and mean `+49 30 …`.
 */
export function phoneDigits(numbers: readonly PhoneNumber[], mobile: string | null): string {
  const all = numbers.flatMap(({ country_code, number }) => {
    const [code, digits] = [digitsIn(country_code), digitsIn(number)];
    return code !== '' && digits.startsWith('0') ? [code + digits, code + digits.slice(1)] : [code + digits];
  });
  return [...all, digitsIn(mobile ?? '')].filter((one) => one.length >= fewest).join(' ');
}

/** A part of a phone number as people write it. */
const numberPart = /^[\d+/()[\].-]+$/;

/**
 * Divides the text of a search into numbers of at least five digits, which phone numbers can contain, and the rest. Parts
 * of numbers that follow each other are one number.
 * @returns the numbers as they were written, with their digits, without `+`, `00` or a `0` before them
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
 * Legal forms of companies, folded, without spaces and punctuation, by country or language. A form may be written with
 * spaces and dots: `s. a.` and `s.a.` are `sa`.
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

/** Legal forms that stand before the name, as in `PT Astra` or `ООО Ромашка`. */
const leadingForms = new Set('ооо оао зао пао ао тоо тов ooo oao zao pao pt uab sia aktiebolaget'.split(' '));

/** Legal forms of languages that do not separate words by spaces. They stand before or after the name. */
const joinedForms = (
  '株式会社 有限会社 合同会社 合資会社 合名会社 一般社団法人 ' +
  '股份有限公司 有限责任公司 有限責任公司 有限公司 ' +
  '주식회사 유한회사 유한책임회사'
)
  .split(' ')
  .map(fold);

/** Characters that stand for a legal form between brackets, as in `(株)トヨタ`. */
const bracketedForms = new Set(['株', '有', '주', '유'].map(fold));

const forms = new Set([...Object.values(legalForms).flatMap((line) => line.split(' ')), ...joinedForms]);

/** Words that connect a legal form with the name, as in `Smith & Co` or `Müller und Co`. */
const connectors = new Set(['and', 'und', 'et', 'y', 'e', 'i', 'og', 'och', 'en', 'de']);

/** Maximum number of words of a legal form, such as `s de r l de c v`. */
const maxWords = 7;

/**
 * Returns the name by which other people know a company: folded, without legal forms and punctuation. Two spellings of
 * one company have the same one: `ACME, Inc.` and `Acme Incorporated` are `acme`. A name that is nothing but a legal
 * form stays. Returns `""` for a name without letters and digits.
 */
export function externalName(name: string): string {
  return withoutTrailing(withoutLeading(wordsOf(name))).join(' ');
}

/** Apostrophes and dots join letters: `O'Neil`, `S.A.`. Other punctuation separates words. */
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

/** Removes legal forms from the end, one after the other, as in `GmbH & Co. KG`. */
function withoutTrailing(words: string[]): string[] {
  const length = lengthOfForm(words);
  if (length === 0) return words;
  const rest = words.slice(0, -length);
  while (rest.length > 1 && connectors.has(rest.at(-1)!)) rest.pop();
  return withoutTrailing(rest);
}

/** Returns the number of words of the longest legal form at the end. At least one word stays before it. */
function lengthOfForm(words: readonly string[]): number {
  for (let length = Math.min(maxWords, words.length - 1); length > 0; length -= 1)
    if (forms.has(words.slice(-length).join(''))) return length;
  return 0;
}
