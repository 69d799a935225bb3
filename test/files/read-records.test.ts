import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { columnsOf } from '../../src/files/columns.ts';
import { failedRecords } from '../../src/files/errors-file.ts';
import type { ImportFile } from '../../src/files/encodings.ts';
import { itemOfRecord } from '../../src/files/read-records.ts';
import { recordWriter } from '../../src/files/write-records.ts';
import { isNothing } from '../../src/files/read-value.ts';
import { fitToStored } from '../../src/files/values.ts';
import { contactFileFields } from '../../src/schemas/files.ts';
import { asJson, contact, givenIn } from './any-contact.ts';
import { contacts, itemsOf, lenient, lines, read } from './reading.ts';

/** The items of a CSV file with the columns `first_name` and `last_name`. */
const itemsBelow = async (body: string, sizes: number[]): Promise<unknown[]> =>
  itemsOf(await read(contacts, `first_name,last_name\n${body}`, sizes));

const ada = { first_name: 'Ada', last_name: 'Lovelace' };

describe('reading a file', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 });

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
          return written.every(({ text }) => text.trim() === '') ? [] : [{ cells: written, line }];
        });
        // Else the last of them could be the footer of a report.
        content += ['x', 'y'].join(separator);
        const { rows: stored } = await read(contacts, content, some);
        expect(stored.slice(0, -1).map(({ cells, line }) => ({ cells, line }))).toEqual(expected);
      }),
      { numRuns: 100 },
    );
  });

  test('keeps records with one value below one that begins like a footer', async () => {
    const { records } = await read(contacts, 'last_name,first_name\nLovelace,Ada\nTotal\nGray\nMoor\n', [7]);
    expect(itemsOf({ records })).toEqual([ada, ...['Total', 'Gray', 'Moor'].map((last_name) => ({ last_name }))]);
  });

  test('gives all records before the place where a file is refused', async () => {
    const { records, refused } = await read(contacts, `first_name\n${'Ada\n'.repeat(2_500)}"open`, [700]);
    expect(refused).toBe('the file has a quote that is not closed (line 2502)');
    expect(records).toHaveLength(2_500);
  });
});

describe('records of a CSV file', () => {
  test.each<[string, string, unknown[]]>([
    [
      'fail if they have more cells than the header line',
      'Ada,Lovelace,,x',
      ['has more cells than the header line, which has 2'],
    ],
    [
      'end outside quotes even after cells that are too many',
      'a,b,c,"\n","\n,",d"\nAda,Lovelace',
      ['has more cells than the header line, which has 2', ada],
    ],
    ['fail if they repeat the header line', 'first_name, last_name\nAda,Lovelace', ['repeats the header line', ada]],
    ['keep quotes inside a cell that begins without one', 'A"da",Lovelace', [{ ...ada, first_name: 'A"da"' }]],
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

  test.each([
    ['phone_numbers', '+1 2;'.repeat(1_000), '/phone_numbers has more than 1000 values'],
    ['other_emails', ';'.repeat(1_000), '/other_emails has more than 1000 values'],
  ])('fail with too many values in a cell of %s', async (header, cell, fault) => {
    expect(itemsOf(await read(contacts, `${header}\n${cell}`))).toEqual([fault]);
  });

  test('fail above 1 MiB, and the next one is read', async () => {
    const cell = 'é"x'.repeat(300_000);
    for (const text of [cell, `"${cell.replaceAll('"', '""')}"`, '""'.repeat(600_000)]) {
      const { rows, records } = await read(contacts, `first_name\n${text}\nAda`, [60_000]);
      expect(itemsOf({ records })).toEqual(['is longer than 1 MiB', { first_name: 'Ada' }]);
      expect(rows.map(({ line, cells }) => [line, cells.length])).toEqual([
        [2, 0],
        [3, 1],
      ]);
    }
  });
});

describe('lines of an NDJSON file', () => {
  test.each<[string, string, unknown[]]>([
    ['are items', '{"first_name":"Ada","list_ids":[]}\r\n{}', [{ first_name: 'Ada', list_ids: [] }, {}]],
    ['fail if they are not objects', '[]\nnull\n1', Array.from({ length: 3 }, () => 'is not a JSON object')],
    [
      'fail if they are not JSON, and say where',
      "{'a':1}\n{\n}\n{}{}",
      [
        'is not valid JSON: it breaks off at character 2',
        'is not valid JSON: it breaks off at character 2',
        'is not valid JSON: } is unexpected',
        'is not valid JSON: it goes on behind its end at character 3',
      ],
    ],
    ['fail with a NUL character', '{"a":"\0"}', ['is not valid JSON: it breaks off at character 7']],
    ['fail with a lone surrogate', '{"a":"\\ud800"}', ['/a must not contain a NUL character or a lone surrogate']],
    ['fail with a property named twice', '{"a":1,"a":2}', ['names a property of one object twice']],
    ['fail if they are nested too deeply', '{"a":'.repeat(65), ['is nested deeper than 64 levels']],
    ['fail above 1 MiB', `{"a":"${'x'.repeat(1_048_577)}"}\n{}`, ['is longer than 1 MiB', {}]],
  ])('%s', async (_what, content, items) => {
    expect(itemsOf(await read(lines, content))).toEqual(items);
  });
});

describe('the file of failed records', () => {
  test('has the original cells with their quotes, the line and the error', async () => {
    const { layout, rows } = await read(lenient, 'first_name;" a ";"b;"\n\\N;"\\N";"x\n""y"\nonly\n1;2;3;4');
    const { header, lineOf } = failedRecords(layout, 'csv');
    expect(header + rows.map((record) => lineOf(record, { error: 'is wrong, "really"' })).join('')).toBe(
      [
        'first_name;" a ";"b;";_line;_error;_warning',
        '\\N;"\\N";"x\n""y";2;"is wrong, ""really""";',
        'only;;;4;"is wrong, ""really""";',
        '1;2;3;5;"is wrong, ""really""";;4',
        '',
      ].join('\r\n'),
    );
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
  test.each([
    ['a name that is no field', ['id', 'nonsense'], '/fields/1'],
    ['a field of every object', ['constructor'], '/fields/0'],
    ['a name twice', ['id', 'id'], '/fields/1'],
    ['a company and a part of it', ['company', 'company.id'], '/fields/1'],
  ])('cannot have %s', (_what, given, path) => {
    const refusal = { code: 'validation_failed', faults: [{ path, message: expect.any(String) }] };
    expect(() => columnsOf(contactFileFields, given, 'csv')).toThrow(expect.objectContaining(refusal));
  });

  test('has a line for each record that is read again, even if its only cell is blank', async () => {
    const writer = recordWriter('csv', columnsOf(contactFileFields, ['middle_name'], 'csv'));
    const records = ['', ' ', '\t', '\\N', null].map((middle_name) => ({ middle_name }));
    const lines = writer.write(records).split('\r\n');
    expect(lines.slice(0, -1).filter((line) => line.trim() === '')).toEqual([]);
    expect(itemsOf(await read(contacts, writer.head + writer.write(records)))).toEqual([
      {},
      {},
      {},
      { middle_name: '\\N' },
      { middle_name: null },
    ]);
  });

  test.each(['csv', 'ndjson'] as const)('of the format %s gives the exported values again', async (format) => {
    const columns = columnsOf(contactFileFields, 'importable', format);
    const writer = recordWriter(format, columns);
    const file: ImportFile = { ...contacts, mode: 'update', match: 'id', format, invalid_values: 'skip' };
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
