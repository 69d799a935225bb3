/**
 * Folds a text to its comparison form: texts that a reader takes for the same fold to the same text. This is the only
 * meaning of "case-insensitive" in this service. Steps: Unicode NFKD; the marks U+0300–U+036F dropped; full case
 * folding (Unicode 17, CaseFolding.txt C + F); letters without a decomposition replaced by their usual base; NFC;
 * trimmed; inner white space as one space. Idempotent.
 *
 * All folded text in the database was folded by this function, and is compared as bytes. After a change here, the
 * stored text must be folded again. The same holds for a Node version whose Unicode folds an assigned letter
 * differently (Unicode promises not to).
 */
export function fold(text: string): string {
  const letters = isAscii(text) ? text.toLowerCase() : foldLetters(text);
  return collapsed.test(letters) ? letters : letters.replace(whiteSpace, ' ').trim();
}

/** Returns the folded words of a text in their order. A word is a maximal run of letters, marks and digits. */
export const words = (text: string): string[] => fold(text).match(/[\p{L}\p{M}\p{Nd}]+/gu) ?? [];

// eslint-disable-next-line no-control-regex
const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

/** All white space. U+0085 is white space in Unicode but not in JavaScript. */
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
 * Letters for which upper-casing and then lower-casing differs from Unicode's full case folding. The lower case of
 * sigma depends on its position in the word, the capital sharp s has no upper case, and Cherokee folds to its capitals.
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
 * Latin letters that Unicode does not decompose, with the base that people type when their keyboard lacks them:
 * ligatures, thorn and eth, eng, dotless j (dotless i folds by its case), and the letters of living alphabets with a
 * stroke or a hook.
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
