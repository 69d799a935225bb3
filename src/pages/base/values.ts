import { html, when, type Html } from './html.ts';

/* Days, times and numbers, as people read and write them. */

/** A day without a time, such as `2026-12-31`. It is the same day in every time zone. */
export type Day = string;

export const dayOf = (instant: string): Day => instant.slice(0, 10);

export const startOf = (day: Day): string => `${day}T00:00:00.000Z`;

export const endOf = (day: Day): string => `${day}T23:59:59.999Z`;

export const dayMs = 24 * 60 * 60 * 1000;

export const dayIn = (days: number): Day => dayOf(new Date(Date.now() + days * dayMs).toISOString());

export const today = (): Day => dayIn(0);

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/**
 * Reads a day as people write it, such as `25.11.2026` or `25 Nov 2026`. Returns undefined if the text is not a day or
 * can mean two, such as `03/04/2026`.
 */
export function readDay(given: string): Day | undefined {
  if (given.length > maxLength) return undefined;
  const text = given.trim().toLowerCase();
  const named = /^(\d{1,2})\.? ([a-z]{3})[a-z]*\.?,? (\d{4})$/.exec(text);
  if (named) return dayFrom(named[3], months.indexOf(named[2]!) + 1, named[1]);
  const [year, month, day] = /^(\d{4})-(\d{1,2})-(\d{1,2})$/.exec(text)?.slice(1) ?? [];
  if (year !== undefined) return dayFrom(year, month, day);
  const [, first, mark, second, last] = /^(\d{1,2})([./])(\d{1,2})\2(\d{4})$/.exec(text) ?? [];
  if (first === undefined) return undefined;
  if (mark === '.') return dayFrom(last, second, first);
  const days = [dayFrom(last, second, first), dayFrom(last, first, second)].filter((one) => one !== undefined);
  return new Set(days).size === 1 ? days[0] : undefined;
}

const maxLength = 40;

function dayFrom(year: unknown, month: unknown, day: unknown): Day | undefined {
  const [y, m, d] = [Number(year), Number(month), Number(day)];
  const text = `${String(y).padStart(4, '0')}-${String(m).padStart(2, '0')}-${String(d).padStart(2, '0')}`;
  const instant = new Date(startOf(text));
  return y > 0 && !Number.isNaN(instant.valueOf()) && dayOf(instant.toISOString()) === text ? text : undefined;
}

/**
 * Reads a number as people write it, such as `40.000,00`, `40,000.00` or `€ 40 000`. Returns undefined if the text is
 * not a number or can mean two, such as `1,249`.
 */
export function readNumber(given: string): number | undefined {
  if (given.length > maxLength) return undefined;
  const text = given.trim().replaceAll(/^(?:\p{Sc}|[A-Z]{3})\s*|\s*(?:\p{Sc}|[A-Z]{3})$/gu, '');
  const plain = /^\d+(?:[.,]\d+)?$/.exec(text)?.[0];
  if (plain !== undefined) return /^[1-9]\d{0,2}[.,]\d{3}$/.test(plain) ? undefined : Number(plain.replace(',', '.'));
  return groupings.some((grouped) => grouped.test(text)) ? Number(withPoint(text)) : undefined;
}

const groupings = [
  /^\d{1,3}(?:\.\d{3})+(?:,\d+)?$/,
  /^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/,
  /^\d{1,3}(?:[\s'’]\d{3})+(?:[.,]\d+)?$/,
];

function withPoint(text: string): string {
  const hasDecimals = new Set(text.replaceAll(/\d/g, '')).size > 1;
  const end = hasDecimals ? Math.max(text.lastIndexOf('.'), text.lastIndexOf(',')) : text.length;
  return `${text.slice(0, end).replaceAll(/\D/g, '')}${hasDecimals ? `.${text.slice(end + 1)}` : ''}`;
}

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const times = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
const shortDays = new Intl.DateTimeFormat('en-GB', {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  timeZone: 'UTC',
});
const numbers = new Intl.NumberFormat('en-GB');

/** Returns a date and time in UTC, or `none` for null. A script then shows it in the viewer's time zone. */
export const moment = (instant: string | null, none = '–'): Html =>
  instant === null
    ? html`<span class="quiet">${none}</span>`
    : html`<time datetime="${instant}">${times.format(new Date(instant))} UTC</time>`;

/** Returns the date of an instant in UTC. A script then shows it in the viewer's time zone. */
export const date = (instant: string): Html =>
  html`<time datetime="${instant}" data-day>${dates.format(new Date(instant))}</time>`;

/**
 * Returns the UTC day of an instant. Viewers in all time zones see the same day. Returns text that is not an instant as
 * it is.
 */
export const day = (instant: string): Html =>
  Number.isNaN(Date.parse(instant))
    ? html`${instant}`
    : html`<time datetime="${dayOf(instant)}">${dates.format(new Date(instant))}</time>`;

/** Returns a day of the next weeks, such as `Mon 7 Dec`. */
export const shortDay = (given: Day): string => shortDays.format(new Date(given)).replace(',', '');

export const count = (value: number): string => numbers.format(value);

export const counted = (value: number, noun: string, plural = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : plural}`;

/** Returns the first names and the number of the others, such as `Ada, Grace and 3 more`. */
export const someNames = (names: readonly string[], most: number, all = names.length): Html =>
  html`${names.slice(0, most).join(', ')}${when(all > most, ` and ${count(all - most)} more`)}`;
