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

const exceptions = new Map([
  ...caseExceptions,
  ...bases.flatMap(([base, letters]) => Array.from(letters, (letter): [string, string] => [letter, base])),
]);
const exceptional = new RegExp(`[${[...exceptions.keys()].join('')}]`, 'gu');
