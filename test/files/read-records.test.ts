import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { columnsOf } from '../../src/files/columns.ts';
import { errorsHeader, errorsLine } from '../../src/files/errors-file.ts';
import type { ImportFile } from '../../src/files/import-file.ts';
import { readLayout } from '../../src/files/layout/layout.ts';
import { readRecords } from '../../src/files/read-records.ts';
import { itemOfRecord } from '../../src/files/records.ts';
import { recordWriter } from '../../src/files/write-records.ts';
import { isNothing } from '../../src/files/values/read-value.ts';
import { fitToStored } from '../../src/files/values/values.ts';
import { contactFileFields } from '../../src/schemas/files.ts';
import { asJson, contact, givenIn } from './any-contact.ts';
import { chunksOf, contacts, itemsOf, lenient, lines, read, readFrom, refusal } from './reading.ts';

/** The items of a CSV file with the columns `first_name` and `last_name`. */
const itemsBelow = async (body: string, sizes: number[]): Promise<unknown[]> =>
  itemsOf(await read(contacts, `first_name,last_name\n${body}`, sizes));

const ada = { first_name: 'Ada', last_name: 'Lovelace' };

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
      { numRuns: 100 },
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
          return written.every(({ text }) => text.trim() === '') ? [] : [{ original: written, line }];
        });
        // Else the last of them could be the footer of a report.
        content += ['x', 'y'].join(separator);
        const { records } = await read(contacts, content, some);
        expect(records.slice(0, -1).map(({ original, line }) => ({ original, line }))).toEqual(expected);
      }),
      { numRuns: 100 },
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

  test('yields less at once if the records are large', async () => {
    const content = `first_name\n${`${'x'.repeat(300_000)}\n`.repeat(9)}`;
    const layout = await readLayout(contacts, chunksOf(Buffer.from(content), [100_000]));
    const sizes: number[] = [];
    const chunks = chunksOf(Buffer.from(content).subarray(layout!.start.bytes), [100_000]);
    for await (const records of readRecords(contacts, layout, chunks, layout!.start)) sizes.push(records.length);
    expect(sizes).toEqual([4, 4, 1]);
  });

  test('lets other work run meanwhile', async () => {
    let rounds = 0;
    const count = setInterval(() => (rounds += 1), 1);
    await read(contacts, `first_name,last_name\n${'Ada,Lovelace\n'.repeat(50_000)}`, [10_000_000]);
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
    ['are skipped if they have separators alone', ',\nAda,Lovelace\n"", \n,', [ada]],
    ['may lack cells at their end', 'Ada\nAda,', [{ first_name: 'Ada' }, { first_name: 'Ada' }]],
    ['give nothing for empty cells', '"",Lovelace', [{ last_name: 'Lovelace' }]],
    [
      'fail if they have more cells than the header line',
      'Ada,Lovelace,,x',
      ['has more cells than the header line, which has 2'],
    ],
    ['may have empty cells beyond it', 'Ada,Lovelace,, ,\nAda,Lovelace', [ada, ada]],
    [
      'end outside quotes even after cells that are too many',
      'a,b,c,"\n","\n,",d"\nAda,Lovelace',
      ['has more cells than the header line, which has 2', ada],
    ],
    ['fail if they repeat the header line', 'first_name, last_name\nAda,Lovelace', ['repeats the header line', ada]],
    ['keep doubled quotes as one', '"A""d""a",""""', [{ first_name: 'A"d"a', last_name: '"' }]],
    ['keep quotes inside a cell that begins without one', 'A"da",Lovelace', [{ ...ada, first_name: 'A"da"' }]],
    ['lose white space around cells', ' Ada," Lovelace "', [ada]],
    ['keep line breaks in quotes', '"A\r\nd\n\ra",Lovelace', [{ ...ada, first_name: 'A\r\nd\n\ra' }]],
    ['keep what looks like a formula', '=1+1,+1', [{ first_name: '=1+1', last_name: '+1' }]],
    [
      'may have white space around quotes',
      ' "A,""d""a" ,\t"Love\tlace"\t',
      [{ first_name: 'A,"d"a', last_name: 'Love\tlace' }],
    ],
    ['keep quotes with more text around', ' "Ada" x, "Love', [{ first_name: '"Ada" x', last_name: '"Love' }]],
    ['fail with text after a quote', '"Ada"x,y\nAda,Lovelace', ['has text after a closing quote', ada]],
    ['give null for an unquoted \\N', '\\N,"\\N"', [{ first_name: null, last_name: '\\N' }]],
    [
      'fail with a NUL character',
      'A\0da,Lovelace',
      ['/first_name must not contain a NUL character or a lone surrogate'],
    ],
  ])('%s', async (_what, body, items) => {
    expect(await itemsBelow(body, [1_000])).toEqual(items);
    expect(await itemsBelow(body, [1])).toEqual(items);
  });

  test('have the line where they start', async () => {
    const { records } = await read(contacts, '\nfirst_name\n\n"A\r\nd\ra"\r\rB\r\n"\r"\n\nC');
    expect(records.map(({ line }) => line)).toEqual([4, 8, 9, 12]);
  });

  test('read each type of column by its rules', async () => {
    const header = 'birth_year,other_emails,phone_numbers,custom_fields.a,custom_fields.b,company.id,company.name';
    const body = '1985,a@x.example;b@x.example,+44 20 7946 0000;030 1234,05,true,\\N,Engines\n,,"[{]",1e400,"true"';
    expect(itemsOf(await read(contacts, `${header}\n${body}`))).toEqual([
      {
        birth_year: 1985,
        other_emails: ['a@x.example', 'b@x.example'],
        phone_numbers: [
          { country_code: '+44', number: '2079460000' },
          { country_code: '', number: '030 1234' },
        ],
        custom_fields: { a: '05', b: 'true' },
        company: { name: 'Engines' },
      },
      '/phone_numbers is not valid JSON: it breaks off at character 3',
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
    const { records } = await read(contacts, `${header.join()}\n${header.map(() => 'a\0').join()}`);
    expect(records[0]!.item).toMatchObject({ message: '30 values are not valid', faults: { length: 10 } });
  });

  test.each([
    ['phone_numbers', '+1 2;'.repeat(1_000), '/phone_numbers has more than 1000 values'],
    ['other_emails', ';'.repeat(1_000_000), '/other_emails has more than 1000 values'],
  ])('fail with too many values in a cell of %s', async (header, cell, fault) => {
    expect(itemsOf(await read(contacts, `${header}\n${cell}`))).toEqual([fault]);
  });

  test('ignore the fields that only the service writes', async () => {
    const content = 'id,score,created_at,first_name,external_id\n1,2,3,Ada,x';
    const item = { first_name: 'Ada', external_id: 'x' };
    expect(itemsOf(await read(contacts, content))).toEqual([item]);
    expect(itemsOf(await read({ ...contacts, mode: 'update' }, content))).toEqual([{ id: '1', ...item }]);
    expect(itemsOf(await read({ ...contacts, mode: 'upsert', match: 'external_id' }, content))).toEqual([item]);
  });

  test('fail above 1 MiB, and the next one is read', async () => {
    const cell = 'é"x'.repeat(300_000);
    for (const text of [cell, `"${cell.replaceAll('"', '""')}"`, '""'.repeat(600_000)]) {
      const { records } = await read(contacts, `first_name\n${text}\nAda`, [60_000]);
      expect(itemsOf({ records })).toEqual(['is longer than 1 MiB', { first_name: 'Ada' }]);
      expect(records.map(({ line, original }) => [line, original.length])).toEqual([
        [2, 0],
        [3, 1],
      ]);
    }
  });
});

describe('lines of an NDJSON file', () => {
  test.each<[string, string, unknown[]]>([
    ['are items', '{"first_name":"Ada","list_ids":[]}\r\n{}', [{ first_name: 'Ada', list_ids: [] }, {}]],
    ['are skipped if they are blank', '\ufeff\n{}\n \t\r\n\n{}\n', [{}, {}]],
    ['fail if they are not objects', '[]\nnull\n1', Array.from({ length: 3 }, () => 'is not a JSON object')],
    [
      'fail if they are not JSON, and say where',
      "{'a':1}\n{\n}\n{}{}",
      [
        'is not valid JSON: it breaks off at character 2',
        'is not valid JSON: it breaks off at character 2',
        'is not valid JSON: } is unexpected',
        'is not valid JSON: it breaks off at character 3',
      ],
    ],
    ['fail with a NUL character', '{"a":"\0"}', ['is not valid JSON: it breaks off at character 7']],
    ['fail with an escaped one', '{"a":"\\u0000"}', ['/a must not contain a NUL character or a lone surrogate']],
    ['fail with a lone surrogate', '{"a":"\\ud800"}', ['/a must not contain a NUL character or a lone surrogate']],
    ['fail with a property named twice', '{"a":1,"a":2}', ['names a property of one object twice']],
    ['fail if they are nested too deeply', '{"a":'.repeat(65), ['is nested deeper than 64 levels']],
    ['fail above 1 MiB', `{"a":"${'x'.repeat(1_048_577)}"}\n{}`, ['is longer than 1 MiB', {}]],
  ])('%s', async (_what, content, items) => {
    expect(itemsOf(await read(lines, content))).toEqual(items);
  });

  test('do not give the fields that only the service writes', async () => {
    const line = '{"id":"1","score":5,"updated_at":"x","first_name":"Ada","unknown":1}';
    expect(itemsOf(await read(lines, line))).toEqual([{ first_name: 'Ada', unknown: 1 }]);
    expect(itemsOf(await read({ ...lines, mode: 'update' }, line))).toEqual([
      { id: '1', first_name: 'Ada', unknown: 1 },
    ]);
  });

  test('have their number, and their text for the file of failed records', async () => {
    const { records } = await read(lines, '\n{}\r\n\r\n{"a":[\n');
    expect(records.map(({ line, original }) => [line, original])).toEqual([
      [2, [{ text: '{}', isQuoted: false }]],
      [4, [{ text: '{"a":[', isQuoted: false }]],
    ]);
  });
});

describe('a file is refused', () => {
  const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

  test.each<[string, ImportFile, string | Buffer, string]>([
    ['with bytes that are not UTF-8', contacts, latin1('first_name\nA\nB\xe9\nC'), 'valid UTF-8 (line 3)'],
    ['cut within a character', contacts, Buffer.from('first_name\rAé').subarray(0, -1), 'valid UTF-8 (line 2)'],
    ['in UTF-16', contacts, Buffer.from('\ufefffirst_name\nA', 'utf16le'), 'is not valid UTF-8'],
    ['as NDJSON that is not UTF-8', lines, latin1('{}\n{}\n\xff{}'), 'valid UTF-8 (line 3)'],
    ['with a quote left open', contacts, 'first_name\nA\n"B\nC', 'quote that is not closed (line 3)'],
    [
      'with a quote that only the next quoted cell closes',
      contacts,
      'first_name,last_name\n"Ada,Lovelace\nAda,"Love,lace"\n',
      'quote that is not closed (line 2)',
    ],
  ])('%s', async (_what, file, content, reason) => {
    expect(await refusal(file, content)).toContain(reason);
  });
});

describe('the file of failed records', () => {
  test('has the original cells with their quotes, the line and the error', async () => {
    const { layout, records } = await read(lenient, 'first_name;" a ";"b;"\n\\N;"\\N";"x\n""y"\nonly\n1;2;3;4');
    const errors = records.map((record) => errorsLine(layout, record, { error: 'is wrong, "really"' }));
    expect(errorsHeader(layout) + errors.join('')).toBe(
      [
        'first_name;" a ";"b;";_line;_error;_warning',
        '\\N;"\\N";"x\n""y";2;"is wrong, ""really""";',
        'only;;;4;"is wrong, ""really""";',
        '1;2;3;5;"is wrong, ""really""";;4',
        '',
      ].join('\r\n'),
    );
  });

  test('of NDJSON has the line in one cell, without NUL characters', async () => {
    const { layout, records } = await read(lines, '{"a":"\0"}');
    expect(errorsHeader(layout)).toBe('_record,_line,_error,_warning\r\n');
    expect(errorsLine(layout, records[0]!, { error: 'x' })).toBe('"{""a"":""\ufffd""}",1,x,\r\n');
  });
});

/** Without texts that are blank or stand for nothing, outside names and custom fields. */
const withoutNothing = (item: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(item).filter(
      ([, value]) => typeof value !== 'string' || (value.trim() !== '' && !isNothing(value.trim())),
    ),
  );

describe('an exported file', () => {
  test.each(['csv', 'ndjson'] as const)('of the format %s gives the exported values again', async (format) => {
    const columns = columnsOf(contactFileFields, 'importable', format);
    const writer = recordWriter(format, columns);
    const file: ImportFile = { ...contacts, mode: 'update', format, invalidValues: 'skip' };
    await fc.assert(
      fc.asyncProperty(fc.array(contact, { maxLength: 5 }), async (records) => {
        const outcome = await read(file, writer.head + writer.write(records));
        const items = records.map((record) => itemOfRecord(columns, record as object as Record<string, unknown>));
        const found = asJson(itemsOf(outcome)) as Record<string, unknown>[];
        const stored = asJson(items) as Record<string, unknown>[];
        // CSV: as written to the records that were exported. What is blank, or only says so, is not given.
        const isCsv = format === 'csv';
        expect(
          isCsv
            ? found.map((item, i) => withoutNothing(fitToStored(itemsOf(outcome)[i] as typeof item, stored[i]!)))
            : found,
        ).toEqual(isCsv ? stored.map((item) => withoutNothing(givenIn(item))) : stored);
      }),
      { numRuns: 60 },
    );
  });
});
