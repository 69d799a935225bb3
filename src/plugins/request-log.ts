import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';
import { isUnavailable, type DomainError } from '../errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True for routes that monitoring calls every few seconds. Successful requests are logged at `debug`, and no
     * request is traced.
     */
    isProbe?: boolean;
  }
}

/** Returns the id of a request: the caller's header `x-request-id` if it is well-formed, otherwise a new id. */
export function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : randomUUID();
}

/**
 * Sets the header `x-request-id` on every response and writes one log line per request, without secrets and bodies. For
 * requests that are answered with 503, `RefusalLog` writes a summary instead. Successful probes are logged at `debug`.
 */
export default fp(
  async (app) => {
    app.addHook('onRequest', (request, reply, done) => {
      void reply.header('x-request-id', request.id);
      done();
    });
    app.addHook('onResponse', (request, reply, done) => {
      if (request.isCounted) return done();
      const isQuiet = request.routeOptions.config.isProbe && reply.statusCode < 400;
      request.log[isQuiet ? 'debug' : 'info'](
        {
          method: request.method,
          route: request.routeOptions.url,
          status: reply.statusCode,
          ms: Math.round(reply.elapsedTime * 10) / 10,
          ...(request.caller ? { customer: request.caller.customerId } : {}),
        },
        'answered',
      );
      return done();
    });
  },
  { name: 'request-log' },
);

/**
 * Returns the properties of an error that are safe to log. Leaves out PostgreSQL texts that can contain values from the
 * database. For a temporary failure (`unavailable`) gives the cause instead of the stack trace.
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

/** The same as `loggableError`, without the stack trace. */
export function withoutStack(error: unknown): Record<string, unknown> {
  const { stack, ...rest } = loggableError(error);
  void stack;
  return rest;
}
