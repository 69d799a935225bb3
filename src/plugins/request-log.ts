import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';

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
