/**
 * Determine the form in which values are sent and received, and what a transaction sees. Sent when a connection is
 * opened, so they take precedence over those of a database or login (`alter database … set datestyle = …`).
 */
export const sessionSettings = {
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  DateStyle: 'ISO,MDY',
  default_transaction_isolation: 'read committed',
  extra_float_digits: '1',
  IntervalStyle: 'postgres',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
} as const;

/**
 * Adds `sessionSettings` and more to a database URL, for pg-boss, which cannot send them in another way. They take
 * precedence over the URL's parameter `options`.
 */
export function withSessionSettings(url: string, more: Record<string, string>): string {
  const given = /[?&]options=([^&#]*)/.exec(url)?.[1] ?? '';
  const own = Object.entries({ ...sessionSettings, ...more }).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', String.raw`\ `)}`,
  );
  const options = [decodeURIComponent(given.replaceAll('+', ' ')), ...own].join(' ').trim();
  return `${url}${url.includes('?') ? '&' : '?'}options=${encodeURIComponent(options)}`;
}
