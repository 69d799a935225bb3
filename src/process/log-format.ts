import { createRequire } from 'node:module';
import type * as PinoPretty from 'pino-pretty';
import type { Config } from './config.ts';

const load = createRequire(import.meta.url);

type FormatConfig = Pick<Config, 'LOG_FORMAT'>;

/** If `LOG_FORMAT` is not set, lines are JSON unless stderr is a terminal. */
export const isJsonLog = ({ LOG_FORMAT }: FormatConfig): boolean =>
  (LOG_FORMAT ?? (process.stderr.isTTY ? 'pretty' : 'json')) === 'json';

export function logFormat(config: FormatConfig): (line: string) => string {
  if (isJsonLog(config)) return (line) => line;
  // Loaded only if it is used: few processes write for a person to read.
  const { prettyFactory } = load('pino-pretty') as typeof PinoPretty;
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
 * Replaces control characters, except line breaks and tabs, and changes of text direction in a line of JSON. Otherwise
 * logged data could control the terminal or imitate another line.
 */
const withoutControls = (json: string): string =>
  json.replaceAll(/\\u00[01][0-9a-f]|\\.|[\u007f-\u009f\p{Bidi_Control}]/gu, (found) =>
    isHarmless.test(found) ? found : '\ufffd',
  );

/** JSON escapes that are safe to print: line breaks, tabs, quotes, slashes, backslashes, and `\u`. */
const isHarmless = /^\\["\\/ntu]$/;
