import { prettyFactory } from 'pino-pretty';
import type { Config } from './config.ts';

type FormatConfig = Pick<Config, 'LOG_FORMAT'>;

/**
 * Returns true if log lines are written as JSON, and false if they are written in a readable format. If `LOG_FORMAT` is
 * not set, the readable format is used only if stderr is a terminal.
 */
export const isJsonLog = ({ LOG_FORMAT }: FormatConfig): boolean =>
  (LOG_FORMAT ?? (process.stderr.isTTY ? 'pretty' : 'json')) === 'json';

/** Returns a function that converts a log line from JSON to the configured log format. */
export function logFormat(config: FormatConfig): (line: string) => string {
  if (isJsonLog(config)) return (line) => line;
  const { isTTY } = process.stderr;
  const pretty = prettyFactory({
    colorize: isTTY && process.stderr.hasColors(),
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname,service,version',
    singleLine: true,
  });
  return (line) => pretty(withoutControls(line));
}

/**
 * Replaces control characters, except line breaks and tabs, in a log line in JSON. Also replaces characters that change
 * the direction of text. Otherwise logged data could control the terminal or imitate another log line.
 */
const withoutControls = (json: string): string =>
  json.replaceAll(/\\u00[01][0-9a-f]|\\.|[\u007f-\u009f\p{Bidi_Control}]/gu, (found) =>
    isHarmless.test(found) ? found : '\ufffd',
  );

/**
 * Matches the escape sequences of JSON that are safe to print to a terminal: line breaks, tabs, quotes, slashes,
 * backslashes, and the start of a Unicode escape (`\u`).
 */
const isHarmless = /^\\["\\/ntu]$/;
