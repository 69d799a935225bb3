// A database or a login can have other values (`alter database … set datestyle = …`). A setting that is sent when a
// connection is opened takes precedence over them.
/**
 * Settings of a database session that determine in which form values are sent and received, and what a transaction
 * sees. All connections of this program send them when they are opened.
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
 * Adds `sessionSettings` and further settings to a database URL, for the driver of the job queue, which cannot send them
 * in another way. They take precedence over those in the URL's parameter `options`.
 * @param more Settings, by name.
 */
export function withSessionSettings(url: string, more: Record<string, string>): string {
  const given = /[?&]options=([^&#]*)/.exec(url)?.[1] ?? '';
  const own = Object.entries({ ...sessionSettings, ...more }).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', String.raw`\ `)}`,
  );
  const options = [decodeURIComponent(given.replaceAll('+', ' ')), ...own].join(' ').trim();
  return `${url}${url.includes('?') ? '&' : '?'}options=${encodeURIComponent(options)}`;
}
