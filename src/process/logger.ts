import { hostname } from 'node:os';
import type { FastifyBaseLogger } from 'fastify';
import { pino } from 'pino';
import packageJson from '../../package.json' with { type: 'json' };
import type { Config } from './config.ts';
import { isUnavailable, type DomainError } from '../errors.ts';
import { logFormat } from './log-format.ts';
import { LogOutput } from './log-output.ts';

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
 * Returns what of an error is safe to log: no message from PostgreSQL that can contain values. For a temporary failure
 * (`unavailable`), the cause instead of the stack trace.
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
