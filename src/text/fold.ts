import { withAsciiDomain } from './email-domains.ts';

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
