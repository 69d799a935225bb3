import { createRequire } from 'node:module';
import type * as PinoPretty from 'pino-pretty';
import { pino } from 'pino';
import { hostname } from 'node:os';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { isUnavailable, type DomainError } from '../errors.ts';

const load = createRequire(import.meta.url);

type FormatConfig = Pick<Config, 'LOG_FORMAT'>;

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
 * Replaces control characters and changes of text direction in a line of JSON, except line breaks and tabs. They could
 * control the terminal or imitate another line.
 */
const withoutControls = (json: string): string =>
  json.replaceAll(/\\u00[01][0-9a-f]|\\.|[\u007f-\u009f\p{Bidi_Control}]/gu, (found) =>
    isHarmless.test(found) ? found : '\ufffd',
  );

const isHarmless = /^\\["\\/ntu]$/;

const stderr = pino.destination({ fd: 2, sync: true });

export class LogOutput {
  readonly #format: (line: string) => string;

  constructor(format: (line: string) => string) {
    this.#format = format;
  }

  write(line: string): void {
    stderr.write(this.#format(line));
  }
}

export function logger(config: Config): FastifyBaseLogger {
  const base = {
    pid: process.pid,
    hostname: hostname(),
    service: config.OTEL_SERVICE_NAME,
    version: packageJson.version,
  };
  // Not to stdout, because that is for the result of a command. Keys and tokens print as `[redacted]`.
  return pino({ base, level: config.LOG_LEVEL, serializers: { err: loggableError } }, new LogOutput(logFormat(config)));
}

/**
 * Returns the parts of an error that may be logged. Omits the message if PostgreSQL quotes a value in it. A temporary
 * failure (`unavailable`) has its cause instead of a stack trace.
 */
export function loggableError(error: unknown): Record<string, unknown> {
  if (isUnavailable(error)) return loggableFailure(error as DomainError);
  // Something else than an error can be thrown, even null.
  const thrown = Object(error) as Error & { code?: string; constraint_name?: string };
  const { name, message, code, constraint_name, stack } = thrown;
  // Messages of class 22 (unreadable values) contain the value. The property `detail` can contain values of rows.
  const quotesValue = typeof code === 'string' && code.startsWith('22');
  return { type: name, code, constraint: constraint_name, ...(quotesValue ? {} : { message, stack }) };
}

const loggableFailure = ({ name, code, message, cause }: DomainError): Record<string, unknown> => ({
  type: name,
  code,
  message,
  ...(cause === undefined ? {} : { cause: withoutStack(cause) }),
});

export function withoutStack(error: unknown): Record<string, unknown> {
  const { stack, ...rest } = loggableError(error);
  void stack;
  return rest;
}
