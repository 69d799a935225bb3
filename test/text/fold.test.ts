import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fold, words } from '../../src/text/fold.ts';

/** Every code point except surrogates, each as a string. */
const everyCharacter = Array.from({ length: 0x110000 }, (_, code) => code)
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code));

/** All assigned characters. */
const assigned = everyCharacter.filter((x) => /[^\p{Cn}\p{Co}]/u.test(x));

describe('fold', () => {
  test.each([
    ['Straße', 'STRASSE', 'strasse'],
    ['ΣΊΣΥΦΟΣ', 'Σίσυφος', 'σισυφοσ'],
    ['İstanbul', 'ıstanbul', 'istanbul'],
    ['Ærøskøbing', 'AEROSKOBING', 'aeroskobing'],
    ['Þór', 'thor', 'thor'],
    ['Łódź', 'LODZ', 'lodz'],
    ['Ħamrun Đakovo', 'hamrun dakovo', 'hamrun dakovo'],
    ['Œuvre', 'OEUVRE', 'oeuvre'],
    ['Åsa', 'A\u030asa', 'asa'],
    ['ﬁn', 'FIN', 'fin'],
    ['ŉ', 'ʼN', 'ʼn'],
    ['ǰ', 'J', 'j'],
    ['Ёлка', 'елка', 'елка'],
    ['ꭰ', 'Ꭰ', 'Ꭰ'],
    ['ᾼ', 'Α', 'α'],
    ['１２３', '123', '123'],
    [' a\u00a0\t b\u0085', 'A B', 'a b'],
    ['´', '', ''],
  ])('takes %j and %j for the same: %j', (one, other, folded) => {
    expect([fold(one), fold(other)]).toEqual([folded, folded]);
  });

  test('keeps the marks of other scripts and what differs by more than case and accent', () => {
    expect(fold('हिन्दी')).toBe('हिन्दी');
    expect(fold('שָׁלוֹם')).not.toBe(fold('שלום'));
    expect(fold('が')).toBe('が');
    expect(fold('が')).not.toBe(fold('か'));
    expect(fold('한글')).toBe('한글');
  });

  test('is idempotent for every character next to letters and marks of several scripts', () => {
    const contexts = (x: string) => [`a${x}`, `${x}a`, `か${x}\u05b4`, `σ${x}`, `${x}\u3099`, `\u0f71${x}\u0f72`];
    const unstable = assigned
      .filter((x) => !/\p{Ideographic}/u.test(x))
      .flatMap(contexts)
      .filter((text) => fold(fold(text)) !== fold(text));
    expect(unstable).toEqual([]);
  });

  test('folds upper and lower case of every code point to the same text', () => {
    const iotaBelow = /\u0345/; // a mark that fold drops, although its upper case is a letter
    const different = assigned
      .filter((x) => !iotaBelow.test(x.normalize('NFD')))
      .filter((x) => fold(x.toUpperCase()) !== fold(x) || fold(x.toLowerCase()) !== fold(x));
    expect(different).toEqual([]);
  });

  test('agrees with the case folding of regular expressions', () => {
    const variants = (x: string) =>
      [...new Set([x.toLowerCase(), x.toUpperCase()])].filter((y) => y !== x && Array.from(y).length === 1);
    const escaped = (x: string) => `\\u{${x.codePointAt(0)!.toString(16)}}`;
    const pairs = assigned.flatMap((x) => variants(x).map((y) => [x, y] as const));
    const same = pairs.filter(([x, y]) => new RegExp(`^${escaped(x)}$`, 'iu').test(y));
    expect(same.length).toBeGreaterThan(2000);
    expect(same.filter(([x, y]) => fold(x) !== fold(y)).filter(([x]) => x !== '\u0345')).toEqual([]);
  });

  test('does not depend on how the text was composed', () => {
    const different = assigned.filter((x) =>
      ['NFC', 'NFD', 'NFKC', 'NFKD'].some((form) => fold(x.normalize(form)) !== fold(x)),
    );
    expect(different).toEqual([]);
  });
});

describe('words', () => {
  test.each([
    ["O'Neil foo_bar e-mail", ['o', 'neil', 'foo', 'bar', 'e', 'mail']],
    ['  Ada.Lovelace+tag@Example.com ', ['ada', 'lovelace', 'tag', 'example', 'com']],
    ['हिन्दी में', ['हिन्दी', 'में']],
    ['№ 7½', ['no', '71', '2']],
    ['— !?', []],
  ])('of %j are %j', (text, expected) => {
    expect(words(text)).toEqual(expected);
  });

  test('are folded and hold no white space', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        for (const word of words(text)) expect([fold(word), /\s/.test(word)]).toEqual([word, false]);
      }),
    );
  });
});
