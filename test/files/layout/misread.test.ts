import { expect, test } from 'vitest';
import { encoderOf } from '../../../src/files/encodings.ts';
import { misreadWord } from '../../../src/files/layout.ts';

const names = {
  German: ['Jörg', 'Müller 17', 'Bäckerei Groß', 'Köln', 'Österreich', 'Böhm & Söhne', 'Anna', 'Straße 4', 'Müßig'],
  Polish: ['Łukasz', 'Wójcik', 'Zakład Żółć', 'Kraków', 'Łódź', 'Małgorzata', 'Michał'],
  French: ['Hélène', 'Société Générale', 'François', 'Besançon', 'Noël', 'Pâtisserie', 'Gérard', 'Forêt', 'Bézier'],
  Russian: ['Иван', 'Петров', 'Москва'],
};

test.each([
  ['German', 'macintosh'],
  ['French', 'macintosh'],
  ['Polish', 'windows-1250'],
  ['Polish', 'iso-8859-2'],
  ['Russian', 'koi8-r'],
] as const)('%s in %s, read as Windows-1252, is noticed', (language, encoding) => {
  const texts = names[language].map((text) => new TextDecoder('windows-1252').decode(encoderOf(encoding).encode(text)));
  expect(misreadWord(texts)).toEqual(expect.any(String));
});

test('texts of Windows-1252, with signs and one odd name among many, are not taken for another encoding', () => {
  const signs = ['10 € – 20 €', '„Zum Löwen“', 'Müller®', '5 m²', 'Nº 3', '§ 14 BGB', '±3 °C', '¿Qué?', 'O´Neill'];
  for (const texts of [
    names.German,
    names.French,
    signs,
    ['BAŠIĆ', 'ŽIŽEK', 'MÜLLER'],
    ['Gro§', ...Array<string>(40).fill('Müller')],
  ])
    expect(misreadWord(texts), texts.join()).toBeUndefined();
});
