import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';

/**
 * Fastify plugin for CORS: allows web pages from the origins in the environment variable `CORS_ORIGINS` to call the
 * API. If the variable is not set, browsers block such calls.
 */
export default fp(
  async (app) => {
    const origins = app.config.CORS_ORIGINS?.split(',').map((origin) => origin.trim());
    if (!origins) return;
    // `*` is the package's route for preflight requests to paths without a route of their own.
    app.addHook('onRoute', (route) => {
      if (route.url === '*') route.config = { ...route.config, access: { public: true } };
    });
    const options = {
      origin: origins,
      methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      exposedHeaders: [
        'etag',
        'idempotency-replayed',
        'ratelimit',
        'ratelimit-policy',
        'retry-after',
        'www-authenticate',
        'x-required-scope',
        'x-next-cursor',
        'x-more',
        'x-events-cursor',
        'x-as-of',
        'x-request-id',
      ],
    };
    await app.register(cors, {
      delegator: (request: FastifyRequest, done: (error: null, options: FastifyCorsOptions) => void) =>
        done(null, { ...options, preflight: isPreflight(request) }),
    });
  },
  { name: 'cors', dependencies: ['services'] },
);

/**
 * Returns true if a request is a CORS preflight: a browser sends it to ask whether a web page may send the real
 * request.
 */
const isPreflight = ({ headers }: FastifyRequest): boolean =>
  // Other OPTIONS requests get 405.
  headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
