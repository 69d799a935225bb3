import { prettyFactory } from 'pino-pretty';
import type { Config } from './config.ts';

type FormatConfig = Pick<Config, 'LOG_FORMAT'>;

/** Returns whether log lines are JSON. Without `LOG_FORMAT` they are, unless stderr is a terminal. */
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
 * Replaces the control characters in a line of JSON, except line breaks and tabs, and the characters that change the
 * direction of text. Text from outside must not control the terminal, and must not make a line look like another.
 */
const withoutControls = (json: string): string =>
  json.replaceAll(/\\u00[01][0-9a-f]|\\.|[\u007f-\u009f\p{Bidi_Control}]/gu, (found) =>
    isHarmless.test(found) ? found : '\ufffd',
  );

/** Matches an escape sequence of JSON that does not stand for a control character, or for a line break or a tab. */
const isHarmless = /^\\["\\/ntu]$/;
