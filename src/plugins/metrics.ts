import { METHODS } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { measureProcess, requestDuration } from '../metrics.ts';
import { ServiceMetrics } from './service-metrics.ts';

interface Options {
  /** Whether this app serves `GET /metrics`. If false, it still measures its requests. */
  isExposed: boolean;
}

const config = { access: { public: true }, isProbe: true } as const;

/** Measures the duration of every request, and serves all metrics of the service at `/metrics` if `isExposed`. */
export default fp(
  async (app, { isExposed }: Options) => {
    measureProcess();
    app.addHook('onResponse', measure);
    if (!isExposed) return;
    const metrics = new ServiceMetrics(app);
    app.get('/metrics', { config, schema: { hide: true } }, async (_request, reply) =>
      reply.type(metrics.contentType).send(await metrics.read()),
    );
  },
  { name: 'metrics', dependencies: ['services'] },
);

function measure(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { method, routeOptions } = request;
  requestDuration
    .labels(METHODS.includes(method) ? method : '_OTHER', routeOptions.url ?? 'unknown', String(reply.statusCode))
    .observe(reply.elapsedTime / 1000);
  done();
}
