import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { readCell, writeCell, type Cell, type CellType, columnNamed, columnsOf } from '../../src/files/columns.ts';
import { itemOfCells } from '../../src/files/read-records.ts';
import { recordWriter } from '../../src/files/write-records.ts';
import { companyFileFields, contactFileFields, type FileFields, type GivenFields } from '../../src/schemas/files.ts';

/** Reads CSV with the library's own reader: the cells of each record after the header line. */
function cellsOf(text: string): { header: string[]; rows: Cell[][] } {
  const [header, ...rows] = parse(text, {
    bom: true,
    relax_column_count: true,
    cast: (cell, { quoting }) => ({ text: cell, isQuoted: quoting }),
  }) as unknown as Cell[][];
  return { header: header!.map((cell) => cell.text), rows };
}

/** Writes records as CSV, and reads them as an import does. */
function throughCsv(fields: FileFields, given: GivenFields, records: object[]): unknown[] {
  const writer = recordWriter('csv', columnsOf(fields, given, 'csv'));
  const { header, rows } = cellsOf(writer.head + writer.write(records));
  const columns = header.map((name) => columnNamed(fields, name)!);
  return rows.map((cells) => {
    const { item, faults } = itemOfCells(columns, cells);
    expect(faults).toEqual([]);
    return item;
  });
}

describe('records written as CSV and read again', () => {
  test('have one line each even if the only cell is blank', () => {
    const records = ['', ' ', '\t', '\\N', null].map((middle_name) => ({ middle_name }));
    expect(throughCsv(contactFileFields, ['middle_name'], records)).toEqual([
      {},
      { middle_name: ' ' },
      { middle_name: '\t' },
      { middle_name: '\\N' },
      { middle_name: null },
    ]);
    const writer = recordWriter('csv', columnsOf(contactFileFields, ['middle_name'], 'csv'));
    const lines = writer.write(records).split('\r\n');
    expect(lines.slice(0, -1).filter((line) => line.trim() === '')).toEqual([]);
  });
});

describe('columns', () => {
  test('of an import are the id and what a create takes, for both kinds of records', () => {
    for (const fields of [contactFileFields, companyFileFields]) {
      const names = columnsOf(fields, 'importable', 'csv').map(({ name }) => name);
      const created = Object.keys(fields.create.properties).filter((name) => name !== 'list_ids');
      expect(names.toSorted()).toEqual(
        ['id', ...created.map((name) => (name === 'company' ? 'company.id' : name))].toSorted(),
      );
      expect(names[0]).toBe('id');
    }
  });

  test.each([
    ['a name that is no field', ['id', 'nonsense'], '/fields/1'],
    ['lists', ['list_ids'], '/fields/0'],
    ['a field of every object', ['constructor'], '/fields/0'],
    ['a name twice', ['id', 'id'], '/fields/1'],
    ['custom fields and one of them', ['custom_fields.plan', 'custom_fields'], '/fields/0'],
    ['a company and a part of it', ['company', 'company.id'], '/fields/1'],
    ['an unknown set', 'everything', '/fields'],
    ['no names', [], '/fields'],
  ])('are rejected with %s', (_what, given, path) => {
    expect(() => columnsOf(contactFileFields, given, 'csv')).toThrow(
      expect.objectContaining({ code: 'validation_failed', faults: [{ path, message: expect.any(String) }] }),
    );
  });
});

describe('a cell', () => {
  const cells: [CellType, string, unknown][] = [
    ['text', '\\N', null],
    ['text', '"\\N"', '\\N'],
    ['text', '05', '05'],
    ['text', '', undefined],
    ['text', '""', undefined],
    ['number', '1815', 1815],
    ['number', '"1815"', 1815],
    ['number', '05', '05'],
    ['custom', '"true"', 'true'],
    ['custom', '9007199254740993', '9007199254740993'],
    ['custom', '8949020000123456789', '8949020000123456789'],
    ['custom', '12E5', '12E5'],
    ['custom', '1e400', '1e400'],
    ['custom', '"7"', '7'],
    ['custom', '05', '05'],
    ['custom', '+5', '+5'],
    ['custom', ' 5', ' 5'],
    ['custom', 'TRUE', 'TRUE'],
    ['custom', '\\N', null],
    ['texts', 'a@x.example; b@x.example;', ['a@x.example', 'b@x.example']],
    ['texts', '; n/a;-', undefined],
    ['own ids', 'a; n/a;b', [{ external_id: 'a' }, { external_id: 'b' }]],
    ['own ids', '-', undefined],
    ['own ids', '"-"', [{ external_id: '-' }]],
    ['own ids', '[]', []],
    ['json', 'n/a', undefined],
    ['json', '—', undefined],
    ['json', 'null', null],
    ['phones', '+44 20 7946 0000;030 1234', phones(['+44', '20 7946 0000'], ['', '030 1234'])],
    ['phones', '+442079460000', phones(['+442079460000', ''])],
    ['phones', '"[{""country_code"":"""",""number"":""+1 2""}]"', phones(['', '+1 2'])],
    ['phones', '[]', []],
    ['json', '"{""plan"":""gold""}"', { plan: 'gold' }],
  ];

  test.each(cells)('of the type %s with %s is read as %j', (type, text, value) => {
    const isQuoted = text.startsWith('"');
    expect(readCell(type, { text: isQuoted ? text.slice(1, -1).replaceAll('""', '"') : text, isQuoted })).toEqual(
      value,
    );
  });

  test.each([
    ['json', '{'],
    ['phones', '[{]'],
    ['number', '1e400'],
  ] as [CellType, string][])('of the type %s with %s is rejected', (type, text) => {
    const column = { ...columnNamed(contactFileFields, 'custom_fields.a')!, type };
    expect(itemOfCells([column], [{ text, isQuoted: false }])).toEqual({
      item: {},
      faults: [{ path: '/custom_fields/a', message: expect.any(String) }],
    });
  });

  test('is written for people where that can be read again', () => {
    expect(writeCell('phones', phones(['+44', '20 7946'], ['', '030'])).text).toBe('+44 20 7946;030');
    expect(writeCell('phones', phones(['', '+44 1'])).text).toBe('[{"country_code":"","number":"+44 1"}]');
    expect(writeCell('phones', []).text).toBe('[]');
  });
});

test('a company with only null parts means no company; beside other parts, null is not given', () => {
  const columns = ['company.id', 'company.name'].map((name) => columnNamed(contactFileFields, name)!);
  const item = (...texts: string[]) =>
    itemOfCells(
      columns,
      texts.map((text) => ({ text, isQuoted: false })),
    ).item;
  expect(item('\\N', '')).toEqual({ company: null });
  expect(item('\\N', 'Engines')).toEqual({ company: { name: 'Engines' } });
  expect(item('', '')).toEqual({});
});

test('formula-like cells are not changed', () => {
  const writer = recordWriter('csv', columnsOf(contactFileFields, ['first_name', 'last_name'], 'csv'));
  expect(writer.head).toBe('first_name,last_name\r\n');
  expect(writer.write([{ first_name: '=1+1', last_name: '@SUM(A1)' }])).toBe('=1+1,@SUM(A1)\r\n');
});

function phones(...all: [string, string][]): { country_code: string; number: string }[] {
  return all.map(([country_code, number]) => ({ country_code, number }));
}
