import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DomainError } from '../../src/errors.ts';
import { columnsOf } from '../../src/files/columns.ts';
import { errorsHeader, errorsLine } from '../../src/files/errors-file.ts';
import { FileRefused } from '../../src/files/file-refused.ts';
import type { ImportFile } from '../../src/files/import-file.ts';
import { readLayout, type CsvLayout } from '../../src/files/layout.ts';
import type { FilePosition } from '../../src/files/raw-records.ts';
import { readRecords, type FileRecord } from '../../src/files/read-records.ts';
import { itemOfRecord } from '../../src/files/records.ts';
import { recordWriter } from '../../src/files/write-records.ts';
import { contactFileFields } from '../../src/schemas/files.ts';
import { asJson, contact, givenIn } from './any-contact.ts';

const contacts: ImportFile = { object: 'contacts', mode: 'create', format: 'csv', ignoreUnknown: false };
const lenient: ImportFile = { ...contacts, ignoreUnknown: true };
const lines: ImportFile = { ...contacts, format: 'ndjson' };

/** Yields the bytes in chunks of these sizes, again and again. */
async function* chunksOf(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let [at, i] = [0, 0]; at < bytes.length; i += 1) {
    const size = sizes[i % sizes.length]!;
    // A copy with other bytes around it, as from a buffer that is used again.
    yield Buffer.from(bytes.subarray(at, at + size));
    at += size;
  }
}

/** Everything that was read from a file: its records, and why it was refused. */
interface Outcome {
  layout: CsvLayout | null;
  records: FileRecord[];
  refused?: string;
}

async function read(file: ImportFile, content: string | Buffer, sizes: readonly number[] = [1_000]): Promise<Outcome> {
  const bytes = Buffer.from(content);
  const layout = await readLayout(file, chunksOf(bytes, sizes));
  return { layout, ...(await readFrom(file, layout, bytes, layout?.start ?? { bytes: 0, line: 1 }, sizes)) };
}

async function readFrom(
  file: ImportFile,
  layout: CsvLayout | null,
  bytes: Buffer,
  from: FilePosition,
  sizes: readonly number[],
): Promise<{ records: FileRecord[]; refused?: string }> {
  const records: FileRecord[] = [];
  try {
    for await (const batch of readRecords(file, layout, chunksOf(bytes.subarray(from.bytes), sizes), from))
      records.push(...batch);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
    return { records, refused: error.message };
  }
  return { records };
}

/** The items of a file that can be read; of a failed record, the message of its first fault. */
const itemsOf = ({ records }: { records: FileRecord[] }): unknown[] => records.map(({ item }) => faultIn(item) ?? item);

const faultIn = (item: object): string | undefined =>
  item instanceof DomainError ? `${item.faults[0]!.path} ${item.faults[0]!.message}`.trim() : undefined;

/** The items of a CSV file with the columns `first_name` and `last_name`. */
const itemsBelow = async (body: string): Promise<unknown[]> =>
  itemsOf(await read(contacts, `first_name,last_name\n${body}`));

const ada = { first_name: 'Ada', last_name: 'Lovelace' };

const refusal = async (file: ImportFile, content: string | Buffer): Promise<string> => {
  const outcome = await read(file, content).catch((error: unknown) => {
    if (error instanceof FileRefused) return { refused: error.message };
    throw error;
  });
  return outcome.refused ?? 'not refused';
};

describe('reading a file', () => {
  // Everything that CSV and UTF-8 give a meaning to, and characters of one to four bytes.
  const soup = fc.string({
    unit: fc.constantFrom(
      'a',
      '"',
      '"',
      ',',
      ',',
      ';',
      '\n',
      '\n',
      '\r',
      '\r\n',
      '\t',
      ' ',
      'é',
      '€',
      '😀',
      '\0',
      '\\N',
    ),
    maxLength: 60,
  });
  const garbled = fc.array(
    fc.oneof(
      soup.map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 2 }),
    ),
    {
      maxLength: 3,
    },
  );
  const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 });

  test('gives the same records in whatever chunks the file arrives, and from whichever record reading goes on', async () => {
    await fc.assert(
      fc.asyncProperty(garbled, sizes, fc.boolean(), async (parts, some, isCsv) => {
        const file = isCsv ? lenient : lines;
        const bytes = Buffer.concat([Buffer.from(isCsv ? '\ufefffirst_name,custom_fields.é\r\n' : '\ufeff'), ...parts]);
        const whole = await read(file, bytes, [bytes.length]);
        expect(await read(file, bytes, some)).toEqual(whole);
        for (const [i, { next }] of whole.records.entries()) {
          const { layout, records, refused } = whole;
          const rest = { records: records.slice(i + 1), ...(refused === undefined ? {} : { refused }) };
          expect(await readFrom(file, layout, bytes, next, some)).toEqual(rest);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('gives the cells that were written, with their line, however they were quoted and whatever ends the lines', async () => {
    const cell = fc.record({
      text: fc.string({ unit: fc.constantFrom('a', 'é', '"', ',', ';', '\t', ' ', '\n', '\r', '\r\n') }),
      isQuoted: fc.boolean(),
    });
    const row = fc.record({
      cells: fc.array(cell, { minLength: 2, maxLength: 4 }),
      end: fc.constantFrom('\n', '\r\n', '\r'),
    });
    const headers = ['first_name', 'last_name', 'job_title', 'industry'];
    await fc.assert(
      fc.asyncProperty(fc.array(row), fc.constantFrom(',', ';', '\t'), sizes, async (rows, separator, some) => {
        let content = `${headers.join(separator)}\n`;
        const expected = rows.flatMap(({ cells, end }) => {
          const written = cells.map(({ text, isQuoted }) => ({ text, isQuoted: isQuoted || /[",;\t\r\n]/.test(text) }));
          const line = content.split(/\r\n|\r|\n/).length;
          const texts = written.map(({ text, isQuoted }) => (isQuoted ? `"${text.replaceAll('"', '""')}"` : text));
          // Of CR before an LF, one line break would be made.
          content += texts.join(separator) + (end === '\r' ? '\r\r' : end);
          return texts.join(separator).trim() === '' ? [] : [{ original: written, line }];
        });
        const { records } = await read(contacts, content, some);
        expect(records.map(({ original, line }) => ({ original, line }))).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  test('yields at most 1,000 records at once, and all of them before the place where a file is refused', async () => {
    const file = `first_name\n${'Ada\n'.repeat(2_500)}"open`;
    const layout = await readLayout(contacts, chunksOf(Buffer.from(file), [1_000]));
    const sizes: number[] = [];
    const all = readRecords(
      contacts,
      layout,
      chunksOf(Buffer.from(file).subarray(layout!.start.bytes), [700]),
      layout!.start,
    );
    await expect(
      (async () => {
        for await (const records of all) sizes.push(records.length);
      })(),
    ).rejects.toThrow('the file has a quote that is not closed (line 2502)');
    expect(sizes).toEqual([1_000, 1_000, 500]);
  });

  test('lets other work run meanwhile', async () => {
    let rounds = 0;
    const count = setInterval(() => (rounds += 1), 1);
    await read(contacts, `first_name,last_name\n${'Ada,Lovelace\n'.repeat(200_000)}`, [10_000_000]);
    clearInterval(count);
    expect(rounds).toBeGreaterThan(2);
  });
});

describe('records of a CSV file', () => {
  test.each<[string, string, unknown[]]>([
    ['end with LF', 'Ada,Lovelace\nAda,Lovelace', [ada, ada]],
    ['end with CR LF', 'Ada,Lovelace\r\nAda,Lovelace\r\n', [ada, ada]],
    ['end with CR', 'Ada,Lovelace\rAda,Lovelace\r', [ada, ada]],
    ['are skipped if they are blank', '\n \t\r\n\r\n\u00a0\nAda,Lovelace\n\n  ', [ada]],
    ['may lack cells at their end', 'Ada\nAda,', [{ first_name: 'Ada' }, { first_name: 'Ada' }]],
    ['give nothing for empty cells', ',\n"",Lovelace', [{}, { last_name: 'Lovelace' }]],
    ['fail if they have more cells than the header line', 'Ada,Lovelace,', ['has 3 cells, but the header line has 2']],
    ['fail if they repeat the header line', 'first_name, last_name\nAda,Lovelace', ['repeats the header line', ada]],
    ['keep doubled quotes as one', '"A""d""a",""""', [{ first_name: 'A"d"a', last_name: '"' }]],
    ['keep quotes inside a cell that begins without one', 'A"da",Lovelace', [{ ...ada, first_name: 'A"da"' }]],
    ['keep white space around cells', ' Ada," Lovelace "', [{ first_name: ' Ada', last_name: ' Lovelace ' }]],
    ['keep line breaks in quotes', '"A\r\nd\n\ra",Lovelace', [{ ...ada, first_name: 'A\r\nd\n\ra' }]],
    ['keep what looks like a formula', '=1+1,+1', [{ first_name: '=1+1', last_name: '+1' }]],
    ['fail with text after a quote', '"Ada"x,y\nAda,Lovelace', ['has text after a closing quote', ada]],
    ['give null for an unquoted \\N', '\\N,"\\N"', [{ first_name: null, last_name: '\\N' }]],
    [
      'fail with a NUL character',
      'A\0da,Lovelace',
      ['/first_name must not contain a NUL character or a lone surrogate'],
    ],
  ])('%s', async (_what, body, items) => {
    expect(await itemsBelow(body)).toEqual(items);
  });

  test('have the line where they start', async () => {
    const { records } = await read(contacts, '\nfirst_name\n\n"A\r\nd\ra"\r\rB\r\n"\r"\n\nC');
    expect(records.map(({ line }) => line)).toEqual([4, 8, 9, 12]);
  });

  test('read each type of column by its rules', async () => {
    const header = 'birth_year,other_emails,phone_numbers,custom_fields.a,custom_fields.b,company.id,company.name';
    const body = '1815,a@x.example;b@x.example,+44 20;030,05,true,\\N,Engines\n,,"[{]",1e400,"true"';
    expect(itemsOf(await read(contacts, `${header}\n${body}`))).toEqual([
      {
        birth_year: 1815,
        other_emails: ['a@x.example', 'b@x.example'],
        phone_numbers: [
          { country_code: '+44', number: '20' },
          { country_code: '', number: '030' },
        ],
        custom_fields: { a: '05', b: true },
        company: { name: 'Engines' },
      },
      '/phone_numbers is not valid JSON',
    ]);
  });

  test.each([
    ['nested too deeply', `[${'['.repeat(500_000)}`, 'is nested deeper than 64 levels'],
    ['with a property named twice', '"{""a"":1,""a"":2}"', 'names a property of one object twice'],
    ['with an escaped NUL', '"{""a"":""\\u0000""}"', 'must not contain a NUL character or a lone surrogate'],
  ])('fail with JSON %s', async (_what, cell, fault) => {
    const [item] = itemsOf(await read(contacts, `custom_fields\n${cell}`));
    expect(item).toMatch(new RegExp(`^/custom_fields\\S* ${fault}$`));
  });

  test('fail with at most 10 faults', async () => {
    const header = Array.from({ length: 30 }, (_, i) => `custom_fields.k${i}`);
    const { records } = await read(contacts, `${header.join()}\n${header.map(() => '1e400').join()}`);
    expect(records[0]!.item).toMatchObject({ message: '30 values are not valid', faults: { length: 10 } });
  });

  test('ignore the fields that only the service writes', async () => {
    const content = 'id,score,created_at,company_id,first_name\n1,2,3,,Ada';
    const { company_id: _, ...known } = { company_id: 0, first_name: 'Ada' };
    expect(itemsOf(await read(lenient, content))).toEqual([known]);
    const update: ImportFile = { ...lenient, mode: 'update' };
    expect(itemsOf(await read(update, content))).toEqual([{ id: '1', first_name: 'Ada' }]);
    expect(itemsOf(await read({ ...update, match: 'external_id' }, `external_id,${content}`))).toEqual([
      { external_id: 'id', first_name: undefined },
    ]);
  });
});
