import { isDeepStrictEqual } from 'node:util';
import { trimText } from '../text/trim.ts';
import { parseCell } from './json.ts';
import type { PhoneNumber } from './values/phones.ts';
import { InvalidCell, isNothing } from './values/read-value.ts';

/** An unquoted `\N` means null, a quoted `\N` is text. */
export interface Cell {
  /** Without the quotes around it. */
  text: string;
  isQuoted: boolean;
  /** Of a sheet: the cell has an error such as `#N/A`, or a formula without a stored value. */
  broken?: 'error' | 'formula';
}

/**
 * The type of the values in a column. The type determines how a value is converted to the text of a cell and back.
 *
 * - `text`: text, unchanged.
 * - `exact`: text that is compared exactly. Within quotes, white space around it counts, and a text such as `n/a` is a
 *   value. White space alone is none.
 * - `instant`: a time as text, in ISO 8601.
 * - `number`: a JSON number.
 * - `texts`: an array of strings, separated by `;`.
 * - `own ids`: the same, of records that are named by their external ids. Only in imports.
 * - `phones`: an array of phone numbers, separated by `;`, or as JSON.
 * - `json`: any JSON value.
 * - `custom`: the value of a custom field. It is read as text, and converted later to the type of its column.
 * - `sheet number`: the same, but a number of a sheet is a number: it has no decimal comma.
 */
export type CellType =
  'text' | 'exact' | 'instant' | 'number' | 'texts' | 'own ids' | 'phones' | 'json' | 'custom' | 'sheet number';

interface Rules {
  /** For a value that is not null. */
  write(value: never): string;
  /**
   * For a cell that is not empty and does not mean null. Undefined: the cell has no value.
   * @throws InvalidCell
   */
  read(cell: Cell): unknown;
  /** True if the cell must be quoted: without quotes, e.g. the text `true` would be read as a boolean. */
  isQuoted?(value: never): boolean;
}

const asItIs: Rules = { write: (text: string) => text, read: ({ text }) => text };

const custom: Rules = {
  write: (value: string | number | boolean) => (typeof value === 'string' ? value : JSON.stringify(value)),
  read: ({ text }) => text,
  isQuoted: (value: unknown) => typeof value === 'string' && mayBeLiteral(value),
};

const rules: Record<CellType, Rules> = {
  text: asItIs,
  exact: {
    write: (text: string) => text,
    read: ({ text, isQuoted }) => {
      const trimmed = trimText(text);
      if (trimmed === '' || (!isQuoted && isNothing(trimmed))) return undefined;
      return isQuoted ? text : trimmed;
    },
    isQuoted: (text: string) => text !== text.trim() || isNothing(text),
  },
  instant: {
    ...asItIs,
    // As a spreadsheet shows midnight.
    read: ({ text }) => (/^\d{4}-\d{2}-\d{2}$/.test(trimText(text)) ? `${trimText(text)}T00:00:00Z` : text),
  },
  number: {
    write: (number: number) => JSON.stringify(number),
    // Text that is not a number stays text, so that the schema of the field rejects it.
    read: ({ text }) => (isNumber(trimText(text)) ? toNumber(text) : text),
  },
  texts: {
    write: (texts: string[]) => texts.join(';'),
    read: ({ text }) => parts(text),
  },
  'own ids': { ...asItIs, read: ({ text }) => parts(text).map((external_id) => ({ external_id })) },
  phones: { write: writePhones, read: ({ text }) => readPhones(text) },
  json: { write: (value: unknown) => JSON.stringify(value), read: ({ text }) => readJson(text) },
  custom,
  'sheet number': { ...custom, read: ({ text, isQuoted }) => (!isQuoted && isNumber(text) ? toNumber(text) : text) },
};

/** Null, unquoted. */
const nullText = String.raw`\N`;

/** Undefined becomes an empty cell. */
export function writeCell(type: CellType, value: unknown): Cell {
  if (value === undefined) return { text: '', isQuoted: false };
  if (value === null) return { text: nullText, isQuoted: false };
  const { write, isQuoted } = rules[type];
  const text = write(value as never);
  return { text, isQuoted: text === nullText || isQuoted?.(value as never) === true };
}

/**
 * Returns undefined for a cell without a value, null for an unquoted `\N`.
 * @throws InvalidCell
 */
export function readCell(type: CellType, cell: Cell): unknown {
  if (cell.text === '') return undefined;
  return !cell.isQuoted && cell.text === nullText ? null : rules[type].read(cell);
}

/** True for a number as JSON writes it. */
export const isNumber = (text: string): boolean => /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text);

/** Without quotes, such a text of a custom field would be a number or boolean. */
export const mayBeLiteral = (text: string): boolean => text === 'true' || text === 'false' || isNumber(text);

/** @throws InvalidCell if the number is too large for JavaScript, such as `1e400` */
function toNumber(text: string): number {
  const number = Number(trimText(text));
  if (!Number.isFinite(number)) throw new InvalidCell('is a number that is too large');
  return number;
}

function readJson(text: string): unknown {
  const { value, fault } = parseCell(trimText(text));
  if (fault !== undefined) throw new InvalidCell(fault);
  return value;
}

/** Values in one cell. To split a cell with many more would block the event loop. */
const maxParts = 1_000;

/**
 * Splits at `;`, or at `:::` as Google does, trims the parts and removes empty ones.
 * @throws InvalidCell if there are too many
 */
function parts(text: string): string[] {
  const all = text.split(/;|:::/, maxParts + 1);
  if (all.length > maxParts) throw new InvalidCell(`has more than ${maxParts} values`);
  return all.map(trimText).filter((part) => part !== '');
}

/** Returns e.g. `+49 30123456;+44 20123456`, or JSON if that cannot be read back as the same numbers. */
function writePhones(phones: PhoneNumber[]): string {
  const text = phones.map(({ country_code, number }) => `${country_code} ${number}`.trim()).join(';');
  return text !== '' && !text.startsWith('[') && isDeepStrictEqual(parts(text).map(readPhone), phones.map(plain))
    ? text
    : JSON.stringify(phones);
}

const plain = ({ country_code, number }: PhoneNumber): PhoneNumber => ({ country_code, number });

const readPhones = (text: string): unknown =>
  trimText(text).startsWith('[') ? readJson(text) : parts(text).map(readPhone);

/** If the text starts with `+`, the first word is the country code. */
function readPhone(text: string): PhoneNumber {
  const [, country_code = '', number = ''] = /^(\+\S*)?\s*(.*)$/s.exec(text)!;
  return { country_code, number };
}
