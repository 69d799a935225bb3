/** A day without a time, such as `2026-12-31`. It is the same day in every time zone. */
export type Day = string;

/** Returns the day of an instant, in UTC: pages store days as their beginning in UTC. */
export const dayOf = (instant: string): Day => instant.slice(0, 10);

/** Returns the instant at which a day begins, in UTC. */
export const startOf = (day: Day): string => `${day}T00:00:00.000Z`;

/** Returns the last instant of a day, in UTC. */
export const endOf = (day: Day): string => `${day}T23:59:59.999Z`;

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/**
 * Reads a day as people write it, such as `25.11.2026` or `25 Nov 2026`. Returns undefined if it is not a day, or if it
 * can be two: `03/04/2026` is in March or in April.
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
