import { describe, expect, test } from 'vitest';
import { fromStored } from '../../../src/files/stored-rows.ts';
import { openXlsx } from '../../../src/files/xlsx.ts';
import { claiming, linesOf, partsOf, refusalOf, sheetOf, zipped } from './workbooks.ts';

const cell = (place: string, value: string, attributes = ''): string =>
  `<c r="${place}" ${attributes}><v>${value}</v></c>`;
const inline = (place: string, text: string): string => `<c r="${place}" t="inlineStr"><is><t>${text}</t></is></c>`;
const header = `<row r="1">${inline('A1', 'first_name')}${inline('B1', 'birth_date')}</row>`;

/** The text of each cell of the second row. A quoted text has quotes around it. */
async function rowOf(cells: string, strings = ''): Promise<string[]> {
  const [, line = '2 []'] = await linesOf(await zipped(partsOf(`${header}<row r="2">${cells}</row>`, strings)));
  return fromStored(2, line.slice(2)).cells.flatMap(({ text, isQuoted, broken }) =>
    text === '' && !broken ? [] : [isQuoted ? JSON.stringify(text) : text],
  );
}

describe('a cell counts as its value', () => {
  test.each<[string, string, string[]]>([
    ['a number', cell('A2', '42'), ['42']],
    ['a number that is stored with more digits', cell('A2', '0.30000000000000004'), ['0.3']],
    ['a number of more than 15 digits', cell('A2', '8949020000123456789'), ['8949020000123456789']],
    ['a text that looks like a number', inline('A2', '007') + inline('B2', '42'), ['007', '"42"']],
    ['a duration', cell('A2', '1.25', 's="6"') + cell('B2', '0.5', 's="6"'), ['1.25', '0.5']],
    ['a time of 24 hours and more', cell('A2', '1.25', 's="4"'), ['1.25']],
    ['a date', cell('A2', '45366', 's="1"'), ['2024-03-15']],
    ['a date in a format of its own', cell('A2', '45366', 's="2"'), ['2024-03-15']],
    ['a number whose format says "days"', cell('A2', '45366', 's="3"'), ['45366']],
    ['a date with a time', cell('A2', '45366.520833333336', 's="1"'), ['2024-03-15T12:30:00Z']],
    ['a date before the day that Excel invented', cell('A2', '1', 's="1"'), ['1900-01-01']],
    ['a postal code', cell('A2', '1067', 's="5"'), ['01067']],
    ['an ISO date', cell('A2', '2024-03-15T00:00:00', 't="d"'), ['2024-03-15']],
    ['a shared text of parts', cell('A2', '2', 't="s"'), ['Ada Lovelace']],
    ['a shared text that is missing', cell('A2', '9', 't="s"'), []],
    ['an escaped character', inline('A2', 'a_x000A_b'), ['a\nb']],
  ])('%s', async (_what, cells, texts) => {
    const strings =
      '<si><t>x</t></si><si><t>Ada &amp; Co</t></si><si><r><t>Ada </t></r><r><t>Lovelace</t></r><rPh><t>no</t></rPh></si>';
    expect(await rowOf(cells, strings)).toEqual(texts);
  });
});

describe('the rows of a sheet', () => {
  test('keep their numbers; the first with two filled cells is the header', async () => {
    const rows = `<row r="2">${inline('B2', 'Our contacts')}</row><row r="4">${inline('A4', 'a')}${inline('C4', 'b')}</row><row r="7">${inline('C7', 'x')}</row>`;
    const file = await zipped(partsOf(rows, '', header));
    expect(await linesOf(file)).toEqual(['4 ["a",1,"b"]', '7 [2,"x"]']);
    expect(await linesOf(file, 'Other')).toEqual(['1 ["first_name","birth_date"]']);
    expect(await refusalOf(file, 'people')).toBe(
      'FileRefused: the file has no sheet "people": it has "People", "Other"',
    );
  });

  test('have their cells in the columns that these name, in any order; a column that is named twice is refused', async () => {
    const rows = (cells: string) => zipped(partsOf(`${header}<row r="2">${cells}</row>`));
    const [, line] = await linesOf(await rows(inline('C2', 'c') + inline('A2', 'a') + inline('B2', 'b')));
    expect(line).toBe('2 ["a","b","c"]');
    expect(await refusalOf(await rows(inline('A2', 'a') + inline('B2', 'b') + inline('A2', 'c')))).toBe(
      'FileRefused: the file has two cells in one place (line 2): open it in a spreadsheet program and save it again',
    );
  });
});

describe('a hostile file is refused, or costs little', () => {
  const much = (text: string, times: number): Buffer => Buffer.alloc(text.length * times, text);
  const sheet = (bytes: Buffer | string) => ({
    ...partsOf(''),
    'xl/worksheets/sheet1.xml': Buffer.concat([
      Buffer.from(`<worksheet><sheetData>${header}`),
      Buffer.from(bytes),
      Buffer.from('</sheetData></worksheet>'),
    ]),
  });

  test.each<[string, () => Record<string, string | Buffer>, string]>([
    [
      'a cell of 10 MB',
      () => sheet(Buffer.concat([Buffer.from('<row><c t="inlineStr"><is><t>'), Buffer.alloc(1e7, 'x')])),
      'a cell that is larger than 1 MiB',
    ],
    [
      '10⁹ rows',
      () => sheet(`<row r="1000000000">${cell('A1000000000', '1')}</row>`),
      'has a row 1000000000: a sheet has at most',
    ],
    ['too many columns', () => sheet(`<row r="2">${cell('XFE2', '1')}</row>`), 'has more than 16384 columns'],
    [
      'more than 200,000 rows',
      () => sheet(much('<row><c><v>1</v></c></row>', 200_001)),
      'has more than 200,000 rows: save it as CSV',
    ],
    ['tags in tags', () => sheet(much('<a>', 1_000)), 'is nested too deep'],
    [
      'an external entity',
      () => ({
        ...partsOf(''),
        'xl/worksheets/sheet1.xml': `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>${sheetOf('')}`,
      }),
      'document type declaration',
    ],
    [
      'a sheet that ends within a character',
      () => ({ ...partsOf(''), 'xl/worksheets/sheet1.xml': Buffer.from(`${sheetOf(header)}é`).subarray(0, -1) }),
      'is not an XLSX file, or damaged',
    ],
    ['no workbook', () => ({ 'word/document.xml': '<a/>' }), 'is a ZIP file, but not an XLSX file'],
  ])('%s', async (_what, parts, message) => {
    const file = await zipped(parts());
    expect(await refusalOf(file)).toMatch(new RegExp(`^FileRefused: the file .*${message.replaceAll('.', '\\.')}`));
  });

  test.each([
    ['xl/styles.xml', 600 * 2 ** 20, 'is larger than 512 MiB when it is unpacked'],
    ['xl/sharedStrings.xml', 65 * 2 ** 20, 'has more than 64 MiB of texts: save it as CSV'],
    ['xl/workbook.xml', 17 * 2 ** 20, 'is not an XLSX file: the list of its sheets'],
    ['xl/worksheets/sheet1.xml', 10, 'is not an XLSX file, or damaged'],
  ])('%s that says it unpacks to %i bytes', async (part, bytes, message) => {
    expect(await refusalOf(claiming(await zipped(partsOf(header)), part, bytes))).toContain(message);
  });

  test('bytes that are no ZIP file, or a cut one', async () => {
    const file = await zipped(partsOf(header));
    for (const bytes of [Buffer.from('PK\x03\x04'), Buffer.alloc(100), file.subarray(0, -30), file.subarray(200)])
      expect(await refusalOf(bytes)).toContain('is not an XLSX file, or damaged');
  });

  test('a part that could not be read is no fault of the file', async () => {
    const broken = openXlsx(async function* () {
      yield* [];
      throw new Error('the database is gone');
    }, 1_000);
    await expect(broken).rejects.toThrow('the database is gone');
  });
});
