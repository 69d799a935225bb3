import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ImportFile } from '../../../src/files/encodings.ts';
import type { Mapping } from '../../../src/schemas/imports.ts';
import { usedMapping } from '../../../src/files/settle-layout.ts';
import { contacts, layoutFor } from '../reading.ts';

const guessed: ImportFile = { ...contacts, guess: true };

/** The fields of a file's columns by header, without those that are left out. */
async function fieldsOf(
  file: ImportFile,
  headers: readonly string[],
  rows: readonly (readonly string[])[] = [],
): Promise<Record<string, string>> {
  const line = (cells: readonly string[]) => cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',');
  const text = [headers, ...rows].map(line).join('\n');
  const layout = await layoutFor(file, text);
  return Object.fromEntries(headers.flatMap((header, i) => (layout.columns[i] ? [[header, layout.columns[i]]] : [])));
}

/** Reads columns that are written as `header=field|header`: of the second one the field is not known. */
function read(columns: string): { headers: string[]; fields: Record<string, string> } {
  const pairs = columns.split('|').map((column) => column.split('='));
  const known = pairs.filter(([, field]) => field !== undefined);
  return { headers: pairs.map(([header]) => header!), fields: Object.fromEntries(known) as Record<string, string> };
}

/** Files of each object: where they come from, and their columns. */
const headers = readFileSync(join(import.meta.dirname, 'headers.tsv'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('\t') as ['contacts' | 'companies', string, string]);

test.each(headers)('headers of %s are recognised: %s', async (object, _what, columns) => {
  const { headers, fields } = read(columns);
  expect(await fieldsOf({ ...guessed, object }, headers)).toEqual(fields);
});

describe('what the first records hold', () => {
  const rowsOf = (...cells: string[]) => cells.map((cell) => ['x', cell]);
  test.each([
    ['e-mail addresses', ['a@x.example', 'B <b@x.example>', 'c@x.example', ''], 'work_email'],
    ['phone numbers', ['+49 30 901820', '+44 (0)20 7946 0000', '0033 1 42 68 53 00'], 'phone_numbers'],
    ['countries', ['Deutschland', 'France', 'United Kingdom'], 'location_country'],
    ['profiles', ['linkedin.com/in/a', 'https://www.linkedin.com/in/b', 'https://de.linkedin.com/in/c'], 'profnet_url'],
    ['codes, which can be languages', ['DE', 'FR', 'IT'], undefined],
    ['long numbers, which can be ids', ['4930901820', '442079460000', '33142685300'], undefined],
    [
      'one address for all, which is not theirs',
      ['a@x.example', 'a@x.example', 'a@x.example', 'a@x.example'],
      undefined,
    ],
  ])('shows the field of a column with another header: %s', async (_what, cells, field) => {
    expect((await fieldsOf(guessed, ['first_name', 'Whatever'], rowsOf(...cells)))['Whatever']).toBe(field);
  });

  test.each([
    ['Title', ['Mr.', 'Ms', 'Prof. Dr.']],
    ['E-Mail', ['yes', 'no', 'yes']],
    ['Mobile', ['no', 'yes', 'yes']],
    ['ID', ['7', '7', '8']],
    ['Owner email', ['a@x.example', 'b@x.example', 'c@x.example']],
  ])('speaks against a column %s', async (header, cells) => {
    expect((await fieldsOf(guessed, ['first_name', header], rowsOf(...cells)))[header]).toBeUndefined();
  });

  test('tells names of companies and foreign ids from our own fields', async () => {
    const rows = [
      ['Acme', '4711'],
      ['Beta', '4712'],
    ];
    expect(await fieldsOf(guessed, ['company', 'id'], rows)).toEqual({ company: 'company.name', id: 'external_id' });
    const own = [['{}', '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b']];
    expect(await fieldsOf({ ...guessed, mode: 'update', match: 'id' }, ['company', 'id'], own)).toEqual({
      company: 'company',
      id: 'id',
    });
  });
});

describe('a field', () => {
  test('is guessed for one column, the one with the better name', async () => {
    expect(await fieldsOf(guessed, ['Home City', 'City', 'Business City', 'City'])).toEqual({
      'Business City': 'location_locality',
    });
    expect(await fieldsOf(guessed, ['work_email', 'E-Mail'])).toEqual({ work_email: 'work_email' });
  });

  test('is guessed for a column that holds something, before an empty one with a better name', async () => {
    const headers = ['Email', 'Business Phone', 'Home Phone'];
    const rows = [['ada@example.com', '', '+49 30 901820']];
    expect(await fieldsOf(guessed, headers, rows)).toEqual({ Email: 'work_email', 'Home Phone': 'phone_numbers' });
    expect(await fieldsOf(guessed, headers, [['ada@example.com', '', '']])).toEqual({
      Email: 'work_email',
      'Business Phone': 'phone_numbers',
    });
  });

  test('that was left out is left out again, however often files with these headers come', async () => {
    let known: Mapping = { 'E-mail': 'work_email', 'E-mail 2': null };
    for (let i = 0; i < 3; i += 1) {
      const layout = await layoutFor(guessed, 'E-mail,E-mail 2\na@x.example,b@x.example\n', known);
      expect(layout.columns).toEqual(['work_email', null]);
      known = usedMapping(layout);
    }
  });
});
