import { describe, expect, test } from 'vitest';
import type { ImportFile } from '../../../src/files/encodings.ts';
import { misreadWord } from '../../../src/files/layout.ts';
import { contacts, lenient, read, refusal } from '../reading.ts';

describe('the header line', () => {
  test.each<[string, string, string, string[]]>([
    ['commas', 'first_name,last_name', ',', ['first_name', 'last_name']],
    ['semicolons', 'first_name;last_name', ';', ['first_name', 'last_name']],
    ['tabs', 'first_name\tlast_name', '\t', ['first_name', 'last_name']],
    ['other separators in quotes', '"a,b,c";"d;e"', ';', ['a,b,c', 'd;e']],
    ['more of another separator in quotes', '"a;b;c;d",e', ',', ['a;b;c;d', 'e']],
    ['white space', ' first_name , last_name ," a "', ',', ['first_name', 'last_name', ' a ']],
    ['a byte order mark', '\ufeff"first_name",last_name', ',', ['first_name', 'last_name']],
  ])('with %s is read', async (_what, line, separator, headers) => {
    for (const end of ['', '\n', '\r\n', '\r'])
      expect((await read(lenient, line + end)).layout).toMatchObject({ separator, headers });
  });

  test.each<[string, ImportFile, string, string]>([
    ['nothing', contacts, '', 'the file has no header line'],
    ['values', { ...contacts, guess: true }, 'a@x.example\nb@x.example', 'its first line has the value "a@x.example"'],
    [
      'an unknown name',
      contacts,
      'first_name,Mail\n',
      'cannot be imported: "Mail" is not the name of a field. "mapping" gives a column its field, and "guess" finds it',
    ],
    ['no name, but values', contacts, 'first_name,\nAda,\nB,x', 'has values in column 2, which has no header (line 3)'],
    ['a property of every object', contacts, 'custom_fields.__proto__', '"custom_fields.__proto__" is not the name'],
    ['names of every object', contacts, 'constructor,toString', '"constructor" is not the name of a field; "toString"'],
    ['a mapping to no field', { ...contacts, mapping: { a: 'list_ids' } }, 'a', '"a" is not the name of a field'],
    ['a name twice', contacts, 'first_name,first_name', 'the columns "first_name" and "first_name" are both for'],
    ['a field twice', { ...contacts, mapping: { a: 'industry' } }, 'a,industry', '"a" and "industry" are both for'],
    ['a part beside the whole', contacts, 'custom_fields.a,custom_fields', 'are both for the field "custom_fields"'],
    [
      'no column of match',
      { ...lenient, mode: 'update', match: 'id' },
      'first_name',
      'no column is for the field "id", which',
    ],
    ['a NUL character', lenient, 'a\0b', 'the file has a NUL character in a header (line 1)'],
    ['text after a quote', lenient, '"a"b,c', 'the file has a header line that has text after a closing quote'],
  ])('with %s is refused', async (_what, file, content, reason) => {
    expect(await refusal(file, content)).toContain(reason);
  });

  test('is refused with the first 10 faults, in a text of bounded length', async () => {
    const headers = Array.from({ length: 4_000 }, (_, i) => `${i}${'😀'.repeat(60)}`);
    const reason = await refusal(contacts, headers.join());
    expect(reason).toMatch(/; and 3990 more\. /);
    expect(reason.length).toBeLessThan(2_000);
  });
});

test('texts of Windows-1252, with signs and one odd name among many, are not taken for another encoding', () => {
  for (const texts of [
    ['Jörg', 'Müller 17', 'Bäckerei Groß', 'Köln', 'Österreich', 'Böhm & Söhne', 'Anna', 'Straße 4', 'Müßig'],
    ['Hélène', 'Société Générale', 'François', 'Besançon', 'Noël', 'Pâtisserie', 'Gérard', 'Forêt', 'Bézier'],
    ['10 € – 20 €', '„Zum Löwen“', 'Müller®', '5 m²', 'Nº 3', '§ 14 BGB', '±3 °C', '¿Qué?', 'O´Neill'],
    ['BAŠIĆ', 'ŽIŽEK', 'MÜLLER'],
    ['Gro§', ...Array<string>(40).fill('Müller')],
  ])
    expect(misreadWord(texts), texts.join()).toBeUndefined();
});
