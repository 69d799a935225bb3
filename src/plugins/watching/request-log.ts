import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True for routes that monitoring systems call every few seconds. Their requests are not traced, and successful
     * requests are logged at level `debug`.
     */
    isProbe?: boolean;
  }
}

/**
 * Returns the id of a request: the value of the request header `x-request-id` if it is well-formed, otherwise a new
 * random id.
 */
export function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : randomUUID();
}

/**
 * Fastify plugin that sets the response header `x-request-id` and writes one log line per request, without secrets and
 * bodies. Requests that get 503 have no log line of their own: `RefusalLog` writes a summary. Successful requests of
 * monitoring systems are logged at level `debug`.
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
