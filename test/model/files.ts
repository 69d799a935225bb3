import { writeXlsx } from 'hucre/xlsx';
import type { Caller } from './caller.ts';
import type { Json } from './model.ts';

/** Files of items, in each format that imports read. */

export type Format = 'csv' | 'ndjson' | 'xlsx';

/** Returns an item as far as a file of this format can say it. */
export const fitted = (caller: Caller, format: Format, item: Json): Json =>
  format === 'ndjson' ? item : forCells(caller, item);

export async function fileOf(format: Format, items: readonly Json[]): Promise<string | Uint8Array> {
  if (format === 'ndjson') return items.map((item) => `${JSON.stringify(item)}\n`).join('');
  const { headers, rows } = tableOf(items);
  // The header of a sheet is the first row with at least two filled cells.
  return format === 'csv' || headers.length < 2 ? csvOf(headers, rows) : xlsxOf(headers, rows);
}

/** Texts that an import of cells reads in ways of its own, which test/files covers. */
const readInCells = new Set(['mobile_phone', 'profnet_url', 'social1_url', 'social2_url']);

/** Returns an item without what cells cannot say: empty texts and lists. Phone numbers may be missing there. */
function forCells(caller: Caller, { list_ids: _lists, ...item }: Json): Json {
  const isAbsent = ([name, value]: [string, unknown]): boolean => {
    if (name === 'phone_numbers') return isEmpty(value) && caller.chance(70);
    return isEmpty(value) || (readInCells.has(name) && value !== null);
  };
  const given = Object.entries(item).filter((entry) => !isAbsent(entry));
  return Object.fromEntries(given.map(([name, value]) => [name, typeof value === 'string' ? value.trim() : value]));
}

const isEmpty = (value: unknown): boolean => {
  if (typeof value === 'string') return value.trim() === '';
  return value !== null && typeof value === 'object' && Object.keys(value).length === 0;
};

type Cell = string | number | boolean;

/** The cells of items by header. The first items may lack what later ones have. */
function tableOf(items: readonly Json[]): { headers: string[]; rows: Map<string, Cell>[] } {
  const rows = items.map(cellsOf);
  return { headers: [...new Set(rows.flatMap((row) => [...row.keys()]))], rows };
}

const nullCell = String.raw`\N`;

function cellsOf(item: Json): Map<string, Cell> {
  const cells = new Map<string, Cell>();
  for (const [name, value] of Object.entries(item)) {
    if (name === 'company' && value === null) cells.set('company.name', nullCell);
    // Values of custom fields have no type of their own in a column: the column has one.
    else if (name === 'custom_fields') cells.set(name, JSON.stringify(value));
    else if (name === 'company')
      for (const [part, one] of Object.entries(value as Json)) cells.set(`${name}.${part}`, cellOf(one));
    else if (name === 'phone_numbers') cells.set(name, JSON.stringify(value));
    else cells.set(name, Array.isArray(value) ? value.join(';') : cellOf(value));
  }
  return cells;
}

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
