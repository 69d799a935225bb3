import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { textsOf, FileProbe, FileRefused, type ImportFile } from '../../src/files/encodings.ts';
import { countryCodes } from '../../src/files/phones.ts';
import { openXlsx } from '../../src/files/xlsx.ts';
import { lenient, readContent } from './reading.ts';
import { costOf, maxHeldMs } from './cost.ts';
import { partsFrom, partsOf, zipped } from './xlsx/workbooks.ts';

const partBytes = 256 * 1024;

/** Reads a file as an import does: finds what it is, its columns and their types, and its records. */
async function readAll(bytes: Buffer): Promise<string> {
  const probe = new FileProbe('auto');
  for await (const part of partsFrom(bytes, partBytes)(0)) probe.add(part);
  const { format, encoding } = probe.found;
  const file: ImportFile = { ...lenient, guess: true, format: format ?? 'auto', invalid_values: 'skip' };
  try {
    const xlsx = format === 'xlsx' ? await openXlsx(partsFrom(bytes, partBytes), bytes.length) : undefined;
    const content = xlsx
      ? { rows: xlsx.rows(null, true) }
      : { texts: textsOf(partsFrom(bytes, partBytes)(0), encoding!) };
    const { records, refused } = await readContent(file, content);
    if (refused !== undefined) return refused;
    const first = records.map(({ item, shown }) => (item instanceof Error ? item.faults[0]!.message : shown));
    return JSON.stringify(first[0]);
  } catch (error) {
    if (error instanceof FileRefused) return error.message;
    throw error;
  }
}

const utf8 = 'First name,Last name,E-mail\n' + 'Jürgen,Müller,jm@example.com\n'.repeat(50);
const cell = (place: string, text: string): string =>
  `<c ${place && `r="${place}"`} t="inlineStr"><is><t>${text}</t></is></c>`;
const header = `<row r="1">${cell('A1', 'first_name')}${cell('B1', 'last_name')}</row>`;
const names = (count: number): string => Array.from({ length: count }, (_, i) => `column${i}`).join();

/** What the import says of a file: why it is refused, or its first record. */
const outcomes: [string, () => Buffer | string | Promise<Buffer>, string][] = [
  [
    'a column name of 1 MB',
    () => `${'x'.repeat(1e6)},first_name,last_name\n1,Ada,L\n`,
    '{"first_name":"Ada","last_name":"L"}',
  ],
  [
    'a column name of 2 MB',
    () => `${'x'.repeat(2e6)},first_name\n1,Ada\n`,
    'the file has a header line that is longer than 1 MiB (line 1)',
  ],
  ['16,000 columns', () => `${names(16_000)}\n`, 'the file has more than 10000 columns (line 1)'],
  [
    '10,000 columns with the same name',
    () => `first_name,${'Phone,'.repeat(9_998)}last_name\n${`Ada${','.repeat(9_999)}L\n`.repeat(300)}`,
    '{"first_name":"Ada","last_name":"L"}',
  ],
  [
    '10,000 columns that say nothing',
    () => `first_name,${names(9_998)},last_name\n${`Ada,${'a@b.example,'.repeat(9_998)}L\n`.repeat(20)}`,
    '{"first_name":"Ada","last_name":"L"}',
  ],
  [
    'a sheet with 10,000 columns, and the last of them filled',
    () =>
      zipped(
        partsOf(
          `<row>${cell('', 'first_name')}${cell('', 'x').repeat(9_999)}</row>${`<row>${cell('', 'A')}<c r="NTP1"><v>1</v></c></row>`.repeat(1_000)}`,
        ),
      ),
    '{"first_name":"A"}',
  ],
  [
    'rows with a cell far to the right of the header',
    () => zipped(partsOf(`${header}${'<row><c r="XFD1"><v>1</v></c></row>'.repeat(5_000)}`)),
    'has more cells than the header line, which has 2',
  ],
  [
    'a row with 100,000 cells in one column',
    () => zipped(partsOf(`${header}<row>${'<c r="A2"><v>1</v></c>'.repeat(100_000)}</row>`)),
    'the file has two cells in one place (line 2): open it in a spreadsheet program and save it again',
  ],
  [
    'Windows-1252 that becomes UTF-8',
    () => Buffer.concat([Buffer.from(`a,b\n${'J\xfcrgen,M\xfcller\n'.repeat(100)}`, 'latin1'), Buffer.from(utf8)]),
    'the file is not valid UTF-8 (line 2): save it in one encoding',
  ],
  [
    'an old Excel file, or one with a password',
    () => Buffer.concat([Buffer.from('d0cf11e0a1b11ae10000', 'hex'), randomBytes(100_000)]),
    'it is an old Excel file, or one with a password: save it as XLSX without a password',
  ],
  [
    'a page of HTML that is named .xls',
    () => '<html><body><table><tr><td>first_name</td></tr></table>',
    'the file is not CSV: it is a page of HTML or XML',
  ],
  [
    'a JSON array',
    () => '[{"first_name": "Ada"}]',
    'the file is not CSV: it is a JSON array: write one object on each',
  ],
  ['a PDF', () => '%PDF-1.7\nx', 'the file is not CSV: it is a PDF: export the records'],
  [
    'macros and formulas, which are not run',
    () =>
      zipped({
        ...partsOf(
          `${header}<row><c t="str"><f>HYPERLINK("http://x","Ada")</f><v>Ada</v></c>${cell('B2', '=1+1')}</row>`,
        ),
        'xl/vbaProject.bin': randomBytes(1_000),
      }),
    '{"first_name":"Ada","last_name":"=1+1"}',
  ],
  [
    'many empty texts',
    () => zipped(partsOf(`${header}<row>${cell('A2', 'Ada')}</row>`, '<si/>'.repeat(100_000))),
    '{"first_name":"Ada"}',
  ],
  [
    'a text of 6 MB in pieces',
    () =>
      zipped(
        partsOf(`${header}<row><c t="s"><v>0</v></c></row>`, `<si>${`<t>${'x'.repeat(2_000)}</t>`.repeat(3_000)}</si>`),
      ),
    'is longer than 1 MiB',
  ],
  [
    'a bomb: a few bytes that unpack to 6 MB of nothing',
    () => zipped({ ...partsOf(''), 'xl/worksheets/sheet1.xml': `<worksheet>${'<a/>'.repeat(1.5e6)}</worksheet>` }),
    'the file has no header line',
  ],
];

// Loading the names of all countries takes long, once.
beforeAll(async () => void (await countryCodes()));

describe('a hostile file is refused in plain words, or read; it costs little memory and never holds the event loop', () => {
  test.each(outcomes)('%s', async (_what, bytesOf, outcome) => {
    const bytes = Buffer.from(await bytesOf());
    const { result, heldMs, memory } = await costOf(() => readAll(bytes));
    expect(result).toContain(outcome);
    expect(heldMs).toBeLessThan(maxHeldMs);
    // Garbage that is not collected yet counts: up to 140 MB were seen.
    expect(memory).toBeLessThan(256 * 1024 * 1024);
  });
});
