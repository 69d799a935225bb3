import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ImportFile } from '../../../src/files/encodings.ts';
import { fitToStored } from '../../../src/files/values.ts';
import { contacts, itemsOf, read, readContent, sheetRows } from '../reading.ts';

type Cells = Record<string, string>;

/** A cell as CSV. One that begins with a quote is that already. */
const cell = (text: string): string =>
  !text.startsWith('"') && /[",\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** The items of a CSV file with these records, which have the same columns. */
async function itemsIn(file: ImportFile, ...records: [Cells, ...Cells[]]): Promise<Record<string, unknown>[]> {
  const lines = [Object.keys(records[0]), ...records.map((cells) => Object.values(cells).map(cell))];
  return itemsOf(await read(file, lines.map((line) => line.join()).join('\n'))) as Record<string, unknown>[];
}

const itemOf = async (cells: Cells) => (await itemsIn(contacts, cells))[0]!;

const numbers = { ...contacts, mapping: { v: { field: 'custom_fields.v', type: 'number' } } } as const;
const files: Record<string, ImportFile> = {
  contacts,
  opportunities: { ...contacts, object: 'opportunities' },
  any: { ...contacts, mapping: { v: 'custom_fields.v' } },
  number: numbers,
  text: { ...contacts, mapping: { v: { field: 'custom_fields.v', type: 'text' } } },
  date: { ...contacts, mapping: { v: { field: 'custom_fields.v', type: 'date' } } },
};

const table = readFileSync(join(import.meta.dirname, 'cells.tsv'), 'utf8')
  .trimEnd()
  .split('\n')
  .filter((line) => !line.startsWith('#'))
  .map((line) => line.split('\t') as [kind: string, cells: string, values: string]);

test.each(table)('of a file of %s, %s is read as %s', async (kind, cells, values) => {
  const records = [JSON.parse(cells)].flat().map((one: Cells | string) => (typeof one === 'string' ? { v: one } : one));
  expect(await itemsIn(files[kind]!, ...(records as [Cells]))).toEqual([JSON.parse(values)].flat());
});

const nothing =
  'n/a|N/A|#N/A|#NV|k.A.|NULL|-|—|--|?|0/0/00|00.00.0000|0000-00-00|#N/D|#REF!|#DIV/0!|#NAME?|#ÜBERLAUF!|#¿NOMBRE?';

test.each(nothing.split('|'))('a cell with %j is empty', async (text) => {
  const names = 'job_title location_country birth_year company.name phone_numbers other_emails'.split(' ');
  expect(await itemOf(Object.fromEntries(names.map((name) => [name, text])))).toEqual({});
});

test('a cell that is longer than its field is not read', async () => {
  for (const [field, most] of Object.entries({
    job_title: 255,
    full_name: 600,
    location_country: 100,
    profnet_url: 2048,
  }))
    expect(await itemOf({ [field]: 'x'.repeat(most + 1) })).toBe(
      `/${field} "${'x'.repeat(99)}…" is longer than ${most} characters`,
    );
});

test('a number with one point before three digits is a number if a sheet has it as such, and says nothing about texts', async () => {
  const texts = [['v', true] as const, ['1.234', false] as const, ['0.5', false] as const, ['1.200', true] as const];
  const rows = sheetRows(...texts.map(([text, isQuoted]) => [{ text, isQuoted }]));
  expect(itemsOf(await readContent({ ...numbers, format: 'xlsx' }, { rows }))).toEqual([
    { custom_fields: { v: 1.234 } },
    { custom_fields: { v: 0.5 } },
    '/custom_fields/v "1.200" can be two numbers: write it as 1200 or 1.2000',
  ]);
});

describe('for a stored record', () => {
  test('a value that is exactly what it holds stays as it is', async () => {
    const stored = {
      phone_numbers: [{ country_code: '+49', number: '(0)30 / 901820' }],
      mobile_phone: '0151 12345678',
    };
    const cells = { phone_numbers: '+49 (0)30 / 901820', mobile_phone: '0151 12345678', location_country: 'DE' };
    expect(fitToStored(await itemOf(cells), { ...stored, location_country: 'DE' })).toMatchObject(stored);
  });

  test('a phone number is read for its country, if the file has none', async () => {
    const item = await itemOf({ phone_numbers: '030 901820', mobile_phone: '0151 12345678' });
    expect(fitToStored(item, { location_country: 'DE', phone_numbers: [] })).toMatchObject({
      phone_numbers: [{ country_code: '+49', number: '30901820' }],
      mobile_phone: '+4915112345678',
    });
  });

  test('further addresses of a cell join those that it has', async () => {
    const item = await itemOf({ work_email: 'a@example.com; b@example.com' });
    expect(fitToStored(item, { other_emails: ['c@example.com'] })).toMatchObject({
      other_emails: ['c@example.com', 'b@example.com'],
    });
  });
});
