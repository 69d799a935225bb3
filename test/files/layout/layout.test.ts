import { describe, expect, test } from 'vitest';
import type { ImportFile } from '../../../src/files/encodings.ts';
import { contacts, itemsOf, lenient, read, readContent, refusal, sheetRows } from '../reading.ts';

describe('the header line', () => {
  test.each<[string, string, string, string[]]>([
    ['commas', 'first_name,last_name', ',', ['first_name', 'last_name']],
    ['semicolons', 'first_name;last_name', ';', ['first_name', 'last_name']],
    ['tabs', 'first_name\tlast_name', '\t', ['first_name', 'last_name']],
    ['one name', 'first_name', ',', ['first_name']],
    ['other separators in quotes', '"a,b,c";"d;e"', ';', ['a,b,c', 'd;e']],
    ['more of another separator in quotes', '"a;b;c;d",e', ',', ['a;b;c;d', 'e']],
    ['a line break in quotes', '"a\r\n,b";c', ';', ['a\r\n,b', 'c']],
    ['white space', ' first_name , last_name ," a "', ',', ['first_name', 'last_name', ' a ']],
    ['blank lines before it', '\r\n \nfirst_name', ',', ['first_name']],
    ['a byte order mark', '\ufeff"first_name",last_name', ',', ['first_name', 'last_name']],
    ['a quote within a name', 'a"b,c', ',', ['a"b', 'c']],
  ])('with %s is read', async (_what, line, separator, headers) => {
    for (const end of ['', '\n', '\r\n', '\r'])
      expect((await read(lenient, line + end)).layout).toMatchObject({ separator, headers });
  });

  test.each([
    ['first_name\r\nAda', 2],
    ['\ufeff\n\r\n"first\r\nname"\rAda', 5],
    ['\ufeffé\nAda', 2],
  ])('of %j ends where the records start', async (content, line) => {
    expect((await read(lenient, content)).records.map((record) => record.line)).toEqual([line]);
  });

  test('names fields itself, or by the mapping', async () => {
    const mapping = { Mail: 'work_email', first_name: null, Plan: 'custom_fields.plan', Old: 'company' };
    const content = 'Mail,first_name,Plan,last_name,score\na@x.example,Ada,7,Lovelace,9';
    const { layout, records } = await read({ ...contacts, mapping }, content);
    expect(layout!.columns).toEqual(['work_email', null, 'custom_fields.plan', 'last_name', null]);
    expect(itemsOf({ records })).toEqual([
      { work_email: 'a@x.example', last_name: 'Lovelace', custom_fields: { plan: 7 } },
    ]);
  });

  const company: ImportFile = { ...contacts, object: 'companies' };
  const byMail: ImportFile = { ...lenient, mode: 'upsert', match: 'work_email' };
  test.each<[string, ImportFile, string, string]>([
    ['nothing', contacts, '', 'the file has no header line'],
    ['blank lines', contacts, '\ufeff\n \r\n', 'the file has no header line'],
    [
      'an unknown name',
      contacts,
      'first_name,Mail\n',
      'cannot be imported: "Mail" is not the name of a field. "mapping" gives a column its field, and "guess" finds it',
    ],
    ['no name, but values', contacts, 'first_name,\nAda,\nB,x', 'has values in column 2, which has no header (line 3)'],
    ['lists', contacts, 'first_name,list_ids', '"list_ids" is not the name of a field'],
    ['names of every object', contacts, 'constructor,toString', '"constructor" is not the name of a field; "toString"'],
    [
      'a custom field of every object',
      contacts,
      'custom_fields.__proto__',
      '"custom_fields.__proto__" is not the name',
    ],
    ['a field of another object', company, 'name,first_name', '"first_name" is not the name'],
    ['a mapping to no field', { ...contacts, mapping: { a: 'list_ids' } }, 'a', '"a" is not the name of a field'],
    ['a name twice', contacts, 'first_name,first_name', 'the columns "first_name" and "first_name" are both for'],
    ['a field twice', { ...contacts, mapping: { a: 'industry' } }, 'a,industry', '"a" and "industry" are both for'],
    ['a part beside the whole', contacts, 'custom_fields.a,custom_fields', 'are both for the field "custom_fields"'],
    ['a name beside its part', contacts, 'full_name,last_name', 'are both for the field "full_name"'],
    [
      'no column of match',
      { ...lenient, mode: 'update', match: 'id' },
      'first_name',
      'no column is for the field "id", which',
    ],
    ['only unknown names', byMail, 'a,b', 'no column is for the field "work_email"'],
    ['a NUL character', lenient, 'a\0b', 'the file has a NUL character in a header (line 1)'],
    ['a quote left open', lenient, '\n"a,b\n', 'the file has a header line that has a quote that is not closed'],
    ['text after a quote', lenient, '"a"b,c', 'the file has a header line that has text after a closing quote'],
  ])('with %s is refused', async (_what, file, content, reason) => {
    expect(await refusal(file, content)).toContain(reason);
  });

  test('with half a character is refused', async () => {
    const rows = sheetRows(['a\ud800', 'b'].map((text) => ({ text, isQuoted: false })));
    await expect(readContent({ ...lenient, format: 'xlsx' }, { rows })).rejects.toThrow('has a half of a character');
  });

  test('is refused with the first 10 faults, in a text of bounded length', async () => {
    const headers = Array.from({ length: 4_000 }, (_, i) => `${i}${'😀'.repeat(60)}`);
    const reason = await refusal(contacts, headers.join());
    expect(reason).toMatch(/; and 3990 more\. /);
    expect(reason.length).toBeLessThan(2_000);
  });
});
