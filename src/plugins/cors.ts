import cors, { type FastifyCorsOptions } from '@fastify/cors';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';

/** Lets browsers in from the origins of `CORS_ORIGINS`, to do what every other client may; nobody while there are none. */
export default fp(
  async (app) => {
    const origins = app.config.CORS_ORIGINS?.split(',').map((origin) => origin.trim());
    if (!origins) return;
    // The package's own route, for preflights of paths that have none.
    app.addHook('onRoute', (route) => {
      if (route.url === '*') route.config = { ...route.config, access: { public: true } };
    });
    const options = {
      origin: origins,
      methods: ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'],
      exposedHeaders: [
        'etag',
        'idempotency-replayed',
        'ratelimit',
        'ratelimit-policy',
        'retry-after',
        'x-next-cursor',
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

/** Any other OPTIONS is a method that no path takes. */
const isPreflight = ({ headers }: FastifyRequest): boolean =>
  headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
