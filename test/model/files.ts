import { isDeepStrictEqual } from 'node:util';
import { writeXlsx } from 'hucre/xlsx';
import type { Caller } from './caller.ts';
import type { Json } from './model.ts';

/** Files of items, in each format that imports read. */

export type Format = 'csv' | 'ndjson' | 'xlsx';

/** Returns an item as far as a file of this format can say it. */
export const fitted = (caller: Caller, format: Format, item: Json): Json =>
  format === 'ndjson' ? item : forCells(caller, item);

export async function fileOf(caller: Caller, format: Format, items: readonly Json[]): Promise<string | Uint8Array> {
  if (format === 'ndjson') return items.map((item) => `${JSON.stringify(item)}\n`).join('');
  const { headers, rows } = tableOf(items, caller.chance(50));
  // The header of a sheet is the first row with at least two filled cells.
  return format === 'csv' || headers.length < 2 ? csvOf(headers, rows) : xlsxOf(headers, rows);
}

/** A number that an import reads in whatever way it is written; what it does with others is tested in test/files. */
const readable = (digits: string): Json => ({ country_code: '+49', number: `30${digits.slice(0, 6)}` });

/** Returns an item without what cells cannot say: empty texts and lists. Phone numbers may be missing there. */
function forCells(caller: Caller, { list_ids: _lists, ...item }: Json): Json {
  const isAbsent = ([name, value]: [string, unknown]): boolean => {
    return isEmpty(value) && (name !== 'phone_numbers' || caller.chance(70));
  };
  const given = Object.entries(item).filter((entry) => !isAbsent(entry));
  const areRead = caller.chance(50);
  const saidInCells = ([name, value]: [string, unknown]): [string, unknown] => {
    if (name === 'mobile_phone' && value !== null) return [name, `+4915112345${100 + caller.random.below(900)}`];
    if (name === 'phone_numbers' && areRead)
      return [name, (value as Json[]).map(({ number }) => readable(String(number)))];
    return [name, typeof value === 'string' ? value.trim() : value];
  };
  return Object.fromEntries(given.map(saidInCells));
}

const isEmpty = (value: unknown): boolean => {
  if (typeof value === 'string') return value.trim() === '';
  return value !== null && typeof value === 'object' && Object.keys(value).length === 0;
};

type Cell = string | number | boolean;

/**
 * The cells of items by header. The first items may lack what later ones have.
 * @param isTyped each custom field has a column, which gets a type; else all are JSON in one
 */
function tableOf(items: readonly Json[], isTyped: boolean): { headers: string[]; rows: Map<string, Cell>[] } {
  const rows = items.map((item) => cellsOf(item, isTyped));
  return { headers: [...new Set(rows.flatMap((row) => [...row.keys()]))], rows };
}

const nullCell = String.raw`\N`;

function cellsOf(item: Json, isTyped: boolean): Map<string, Cell> {
  const cells = new Map<string, Cell>();
  for (const [name, value] of Object.entries(item)) {
    if (name === 'company' && value === null) cells.set('company.name', nullCell);
    else if (name === 'custom_fields' && !isTyped) cells.set(name, JSON.stringify(value));
    else if (name === 'company' || name === 'custom_fields')
      for (const [part, one] of Object.entries(value as Json)) cells.set(`${name}.${part}`, cellOf(one));
    else if (name === 'phone_numbers') cells.set(name, phonesOf(value as Json[]));
    else if (name === 'mobile_phone' || name.endsWith('_url')) cells.set(name, asPeopleWrite(cellOf(value)));
    else cells.set(name, Array.isArray(value) ? value.join(';') : cellOf(value));
  }
  return cells;
}

const phonesOf = (phones: readonly Json[]): string =>
  phones.length > 0 && phones.every((phone) => isDeepStrictEqual(phone, readable(String(phone['number']).slice(2))))
    ? phones.map(({ number }) => `+49 (0)30 ${String(number).slice(2)}`).join('; ')
    : JSON.stringify(phones);

/** `+49 151 12345678`, and web addresses without `https://`. */
const asPeopleWrite = (cell: Cell): Cell =>
  String(cell)
    .replace(/^\+49151/, '+49 (0)151 ')
    .replace('https://', '');

const cellOf = (value: unknown): Cell => (value === null ? nullCell : (value as Cell));

function csvOf(headers: readonly string[], rows: readonly Map<string, Cell>[]): string {
  const lines = rows.map((row) => headers.map((header) => quoted(String(row.get(header) ?? ''))).join(','));
  return [headers.map(quoted).join(','), ...lines].join('\r\n');
}

const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

const xlsxOf = (headers: string[], rows: readonly Map<string, Cell>[]): Promise<Uint8Array> =>
  writeXlsx({
    sheets: [
      { name: 'Records', rows: [headers, ...rows.map((row) => headers.map((header) => row.get(header) ?? null))] },
    ],
  });
