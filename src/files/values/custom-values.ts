import type { CustomType } from '../../schemas/imports.ts';
import { InvalidCell, isNothing, quoted } from './read-value.ts';

type CustomValue = string | number | boolean;

/**
 * Reads the value of a custom field.
 * @returns undefined for an empty value
 * @throws InvalidCell if the text is none of the type
 */
export function readCustom(text: string, type: CustomType): CustomValue | undefined {
  const trimmed = text.trim();
  if (trimmed === '' || (type !== 'text' && isNothing(trimmed))) return undefined;
  return readers[type](trimmed);
}

const readers: Record<CustomType, (text: string) => CustomValue> = {
  text: (text) => text,
  number: readNumber,
  boolean: readBoolean,
  date: readDate,
};

const digits = /^[-+]?\d{1,15}(?:\.\d{1,15})?$/;

/** Thousands with blanks or apostrophes between them. */
const spaced = /^[-+]?\d{1,3}(?:[\s\u00a0\u202f'’]\d{3})+(?!\d)/;

/**
 * Reads a number as it is written in English, or as in other languages where that cannot be confused: `1,234` can be
 * two numbers.
 */
function readNumber(text: string): number {
  const signed = text.replace('\u2212', '-').replace(/^([-+])\s+/, '$1');
  const plain = plainNumber(signed.replace(spaced, (thousands) => thousands.replaceAll(/[^-+\d]/g, '')));
  if (plain === undefined || !digits.test(plain))
    throw new InvalidCell(`${quoted(text)} is no number (such as 1234.5)`);
  return Number(plain);
}

/** Returns a number without separators of thousands, and with a point. Undefined if it can be two numbers. */
function plainNumber(text: string): string | undefined {
  const [comma, point] = [text.lastIndexOf(','), text.lastIndexOf('.')];
  if (comma < 0) return isGrouped(text, '.') ? text.replaceAll('.', '') : text;
  if (point < 0) {
    if (isGrouped(text, ',')) return text.replaceAll(',', '');
    return text.indexOf(',') === comma && text.length - comma !== 4 ? text.replace(',', '.') : undefined;
  }
  const [decimal, group] = comma > point ? ([',', '.'] as const) : (['.', ','] as const);
  const at = text.lastIndexOf(decimal);
  const whole = text.slice(0, at);
  const groups = group === '.' ? /^[-+]?\d{1,3}(?:\.\d{3})+$/ : /^[-+]?\d{1,3}(?:,\d{3})+$/;
  return groups.test(whole) ? `${whole.replaceAll(group, '')}.${text.slice(at + 1)}` : undefined;
}

/** True for two groups of three digits or more: with one, `1.234` is a number with a point. */
const isGrouped = (text: string, separator: '.' | ','): boolean =>
  (separator === '.' ? /^[-+]?\d{1,3}(?:\.\d{3}){2,}$/ : /^[-+]?\d{1,3}(?:,\d{3}){2,}$/).test(text);

const yes = new Set('true yes y 1 x ja wahr j oui vrai si sí verdadero'.split(' '));
const no = new Set('false no n 0 nein falsch non faux falso'.split(' '));

function readBoolean(text: string): boolean {
  const word = text.toLowerCase();
  if (yes.has(word) || no.has(word)) return yes.has(word);
  throw new InvalidCell(`${quoted(text)} is neither true nor false`);
}

// After a date, its time may follow, and nothing else, such as a second date.
const isoDate = /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]\s*\d{1,2}:\d{2}.*)?$/;
const writtenDate = /^(\d{1,2})([-/.])\s*(\d{1,2})\2\s*(\d{4})(?:,?\s+\d{1,2}:\d{2}.*)?$/;

/** @returns `YYYY-MM-DD` */
function readDate(text: string): string {
  const [, year, month, day] = isoDate.exec(text) ?? [];
  const found = year === undefined ? dateAsWritten(text) : dateOf(year, month!, day!);
  if (found === undefined) throw new InvalidCell(`${quoted(text)} is no date (such as 2024-12-31)`);
  return found;
}

/** With points, the day is first. Else the larger number must show which is the day. */
function dateAsWritten(text: string): string | undefined {
  const [, first, separator, second, year] = writtenDate.exec(text) ?? [];
  if (first === undefined) return undefined;
  const [asDayFirst, asMonthFirst] = [dateOf(year!, second!, first), dateOf(year!, first, second!)];
  if (separator === '.' || asMonthFirst === undefined || asDayFirst === asMonthFirst) return asDayFirst;
  if (asDayFirst === undefined) return asMonthFirst;
  throw new InvalidCell(`${quoted(text)} can be two dates: write it as ${asDayFirst} or ${asMonthFirst}`);
}

function dateOf(year: string, month: string, day: string): string | undefined {
  const text = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? text : undefined;
}
