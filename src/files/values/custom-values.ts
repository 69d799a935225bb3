import type { CustomType } from '../../schemas/imports.ts';
import { fold } from '../../text/fold.ts';
import { trimText } from '../../text/trim.ts';
import { InvalidCell, isNothing, quoted, readUrl } from './read-value.ts';

type CustomValue = string | number | boolean;

/** How the cells of a custom field are read: as an import says, or as the field is declared. */
export type ReadType = CustomType | 'url';

/** Choices by how they can be written: exactly, or folded. */
export type Choices = ReadonlyMap<string, string>;

export const choicesBy = (choices: readonly string[]): Choices =>
  new Map([
    ...choices.map((choice) => [fold(choice), choice] as const),
    ...choices.map((choice) => [choice, choice] as const),
  ]);

/** Returns the choice that a text means, or the text. Undefined for an empty value. */
export function readChoice(text: string, choices: Choices): string | undefined {
  const trimmed = trimText(text);
  const meant = choices.get(text) ?? choices.get(trimmed) ?? choices.get(fold(trimmed));
  return meant ?? (trimmed === '' || isNothing(trimmed) ? undefined : trimmed);
}

/**
 * Reads the value of a custom field.
 * @param mark of the numbers in the column, as far as its cells show it
 * @returns undefined for an empty value
 * @throws InvalidCell if the text is not of the type
 */
export function readCustom(text: string, type: ReadType, mark?: DecimalMark): CustomValue | undefined {
  const trimmed = trimText(text);
  if (trimmed === '' || (type !== 'text' && isNothing(trimmed))) return undefined;
  return readers[type](trimmed, mark);
}

const readers: Record<ReadType, (text: string, mark?: DecimalMark) => CustomValue> = {
  text: (text) => text,
  number: readNumber,
  boolean: readBoolean,
  date: readDate,
  url: readUrl,
};

/** What stands before the decimals of a number. */
export type DecimalMark = '.' | ',';

/** Thousands with blanks or apostrophes between them. */
const spaced = /^[-+]?\d{1,3}(?:[\s\u00a0\u202f'’]\d{3})+(?!\d)/;

/** Numbers as they are written with each mark. The other one can stand between thousands. */
const written: Record<DecimalMark, RegExp> = {
  '.': /^[-+]?(?:\d{1,15}|[1-9]\d{0,2}(?:,\d{3}){1,4})(?:\.\d{1,17})?(?:e[-+]?\d{1,3})?$/i,
  ',': /^[-+]?(?:\d{1,15}|[1-9]\d{0,2}(?:\.\d{3}){1,4})(?:,\d{1,17})?(?:e[-+]?\d{1,3})?$/i,
};

/** A longer text is not a number. */
const longestNumber = 100;

/** Digits with which each number is printed back exactly. */
const safeDigits = 15;

/**
 * True for a number that JSON prints back exactly as it is written, such as `1.5`, and not `1.50`, `007` or `1e3`. A
 * column of such cells is one of numbers.
 */
export const isExactNumber = (text: string): boolean =>
  text.length <= safeDigits + 2 &&
  /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/.test(text) &&
  text.replaceAll(/[-.]/g, '').length <= safeDigits &&
  String(Number(text)) === text;

/** Returns the number that a text is with this mark, or undefined. */
function numberWith(mark: DecimalMark, text: string): number | undefined {
  if (text.length > longestNumber) return undefined;
  const signed = trimText(text)
    .replace('\u2212', '-')
    .replace(/^([-+])\s+/, '$1');
  const joined = signed.replace(spaced, (thousands) => thousands.replaceAll(/[^-+\d]/g, ''));
  if (!written[mark].test(joined)) return undefined;
  const [digits, exponent = '0'] = joined.toLowerCase().split('e') as [string, string?];
  const [whole, decimals = '0'] = digits.split(mark) as [string, string?];
  const number = Number(`${whole.replaceAll(/[.,]/g, '')}.${decimals}e${exponent}`);
  return Number.isFinite(number) ? number : undefined;
}

/** Returns the mark if the text is a number with this mark alone: `12,5` has a comma, `1.200` can have either. */
export function decimalMarkOf(text: string): DecimalMark | undefined {
  const [withPoint, withComma] = [numberWith('.', text), numberWith(',', text)];
  if ((withPoint === undefined) === (withComma === undefined)) return undefined;
  return withPoint === undefined ? ',' : '.';
}

/** @param mark that of the column's other numbers. It decides what a text such as `1.200` or `1,200` is. */
function readNumber(text: string, mark?: DecimalMark): number {
  const [withPoint, withComma] = [numberWith('.', text), numberWith(',', text)];
  const number = mark === ',' ? (withComma ?? withPoint) : (withPoint ?? withComma);
  if (number === undefined) throw new InvalidCell(`${quoted(text)} is not a number (such as 1234.5)`);
  if (mark === undefined && withPoint !== undefined && withComma !== undefined && withPoint !== withComma) {
    const [small, large] = [withPoint, withComma].toSorted((a, b) => Math.abs(a) - Math.abs(b)) as [number, number];
    throw new InvalidCell(`${quoted(text)} can be two numbers: write it as ${large} or ${small.toFixed(4)}`);
  }
  return number;
}

/** Returns a number that was read with this mark so that it is the same with any: `1.200` as `1200` or `1.2000`. */
export function unambiguous(text: string, mark: DecimalMark): string {
  const [withPoint, withComma] = [numberWith('.', text), numberWith(',', text)];
  if (withPoint === undefined || withComma === undefined || withPoint === withComma) return text;
  const number = mark === '.' ? withPoint : withComma;
  return Number.isInteger(number) ? String(number) : number.toFixed(4);
}

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
  if (found === undefined) throw new InvalidCell(`${quoted(text)} is not a date (such as 2024-12-31)`);
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
