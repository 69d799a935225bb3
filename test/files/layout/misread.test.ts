import { describe, expect, test } from 'vitest';
import { encoderOf } from '../../../src/files/encodings.ts';
import { misreadWord } from '../../../src/files/layout.ts';

const people = [
  'Jörg',
  'Müller 17',
  'Bäckerei Groß',
  'Köln',
  'Österreich',
  'Böhm & Söhne',
  'Anna',
  'Straße 4',
  'Müßig',
];
const names = {
  German: people,
  Polish: ['Łukasz', 'Wójcik', 'Zakład Żółć', 'Kraków', 'Łódź', 'Małgorzata', 'Michał'],
  French: ['Hélène', 'Société Générale', 'François', 'Besançon', 'Noël', 'Pâtisserie', 'Gérard', 'Forêt', 'Bézier'],
  Russian: ['Иван', 'Петров', 'Москва'],
};

/** Code page 850, which programs of DOS write. */
const dos: Record<string, number> = { ä: 0x84, ö: 0x94, ü: 0x81, Ä: 0x8e, Ö: 0x99, Ü: 0x9a, ß: 0xe1 };
const inDos = (text: string): Buffer => Buffer.from(Array.from(text, (one) => dos[one] ?? one.charCodeAt(0)));

const asWindows = (bytes: Buffer): string => new TextDecoder('windows-1252').decode(bytes);

describe('texts of another encoding, read as Windows-1252, are noticed', () => {
  test.each([
    ['German', 'macintosh'],
    ['French', 'macintosh'],
    ['Polish', 'windows-1250'],
    ['Polish', 'iso-8859-2'],
    ['Russian', 'windows-1251'],
    ['Russian', 'koi8-r'],
  ] as const)('%s in %s', (language, encoding) => {
    const { encode } = encoderOf(encoding);
    expect(misreadWord(names[language].map((text) => asWindows(encode(text))))).toEqual(expect.any(String));
  });

  test('German in code page 850', () => {
    expect(misreadWord(people.map((text) => asWindows(inDos(text))))).toBe('J”rg');
  });
});

test.each([
  [
    'names',
    [...people, ...names.French, 'Peña', 'Åsa Ærø', 'Þórður', 'Œuvre', 'Škoda', 'Dvořák', 'D’Angelo', 'O´Neill'],
  ],
  [
    'signs',
    ['10 € – 20 €', '„Zum Löwen“', '«Chez Zoé»', 'Müller®', '5 m²', 'Nº 3', '§ 14 BGB', '±3 °C', '¿Qué?', 'Col·legi'],
  ],
  ['capitals', ['BAŠIĆ', 'ŽIŽEK', 'MÜLLER', 'CAFÉ']],
  ['an odd name among many', ['Gro§', ...Array.from({ length: 40 }, () => 'Müller')]],
  ['nothing but ASCII', ['Ada', '']],
])('%s of Windows-1252 are not', (_what, texts) => {
  expect(misreadWord(texts)).toBeUndefined();
});
