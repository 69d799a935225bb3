import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';

/** The caller's `x-request-id` if it is harmless, else a new one. */
export function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : randomUUID();
}

/**
 * Names every answer with its request id, and writes one log line a request: what, how long, for whom; no secret, no body.
 * Requests that were not answered are counted instead (`RefusalLog`).
 */
export default fp(
  async (app) => {
    app.addHook('onRequest', (request, reply, done) => {
      void reply.header('x-request-id', request.id);
      done();
    });
    app.addHook('onResponse', (request, reply, done) => {
      if (request.isCounted) return done();
      request.log.info(
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
 * Errors as they may be logged: no property but these, since Postgres puts row values into `detail` and, where it could
 * not read a value (class 22), into the message itself.
 */
export function loggableError(error: unknown): Record<string, unknown> {
  const { name, message, code, constraint_name, stack } = error as Error & { code?: string; constraint_name?: string };
  const quotesValue = typeof code === 'string' && code.startsWith('22');
  return { type: name, code, constraint: constraint_name, ...(quotesValue ? {} : { message, stack }) };
}
