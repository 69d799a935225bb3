import { prettyFactory } from 'pino-pretty';
import type { Config } from './config.ts';

type FormatConfig = Pick<Config, 'LOG_FORMAT'>;

/**
 * Returns true if log lines are written as JSON. If `LOG_FORMAT` is not set, this depends on stderr: JSON is the
 * default unless stderr is a terminal.
 */
export const isJsonLog = ({ LOG_FORMAT }: FormatConfig): boolean =>
  (LOG_FORMAT ?? (process.stderr.isTTY ? 'pretty' : 'json')) === 'json';

/** Returns the function that converts a log line from JSON to the configured format. */
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
 * Replaces control characters in a line of JSON, except line breaks and tabs. Also replaces characters that change the
 * direction of text. Such characters in logged data could control the terminal or imitate another log line.
 */
const withoutControls = (json: string): string =>
  json.replaceAll(/\\u00[01][0-9a-f]|\\.|[\u007f-\u009f\p{Bidi_Control}]/gu, (found) =>
    isHarmless.test(found) ? found : '\ufffd',
  );

/**
 * Matches an escape sequence of JSON that is harmless in a terminal: a line break, a tab, or a character that is not a
 * control character.
 */
const isHarmless = /^\\["\\/ntu]$/;
