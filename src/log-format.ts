import { prettyFactory } from 'pino-pretty';
import type { Config } from './config.ts';

/**
 * Returns the function that converts a log line from JSON to the configured format. Without `LOG_FORMAT` the format is
 * `pretty` if stderr is a terminal, otherwise `json`.
 */
export function logFormat({ LOG_FORMAT }: Pick<Config, 'LOG_FORMAT'>): (line: string) => string {
  const { isTTY } = process.stderr;
  if ((LOG_FORMAT ?? (isTTY ? 'pretty' : 'json')) === 'json') return (line) => line;
  const pretty = prettyFactory({
    colorize: isTTY && process.stderr.hasColors(),
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname,service,version',
    singleLine: true,
  });
  return (line) => pretty(withoutControls(line));
}

/**
 * Replaces the control characters in a line of JSON, except line breaks and tabs. Text from outside must not control the
 * terminal.
 */
const withoutControls = (json: string): string =>
  json.replaceAll(/\\u00[01][0-9a-f]|\\.|[\u007f-\u009f]/g, (found) => (isHarmless.test(found) ? found : '\ufffd'));

/** Matches an escape sequence of JSON that does not stand for a control character, or for a line break or a tab. */
const isHarmless = /^\\["\\/ntu]$/;
