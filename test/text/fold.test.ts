import { describe, expect, test } from 'vitest';
import { fold, words, externalName } from '../../src/text/fold.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

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

  test('folds upper and lower case of every code point to the same text', () => {
    const iotaBelow = /\u0345/; // a mark that fold drops, although its upper case is a letter
    const different = assigned
      .filter((x) => !iotaBelow.test(x.normalize('NFD')))
      .filter((x) => fold(x.toUpperCase()) !== fold(x) || fold(x.toLowerCase()) !== fold(x));
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
});

/** Real companies: the name as registers have it, and the name by which people know the company. */
const companies = readFileSync(join(import.meta.dirname, 'company-names.tsv'), 'utf8')
  .trimEnd()
  .split('\n')
  .filter((line) => !line.startsWith('#'))
  .map((line) => line.split('\t') as [registered: string, known: string]);

test('the external name of companies of many countries lacks their legal form and punctuation, and nothing else', () => {
  // Folding splits the marks of katakana, so these names are compared in the same form.
  const expected = companies.map(([registered, known]) => [
    registered,
    /^[ -~]*$/.test(known) ? known : externalName(known),
  ]);
  expect(companies.map(([registered]) => [registered, externalName(registered)])).toEqual(expected);
  expect(externalName('—')).toBe('');
});
