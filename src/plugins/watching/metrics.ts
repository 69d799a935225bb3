import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { measureProcess, requestDuration } from '../../process/metrics.ts';
import { ServiceMetrics } from './service-metrics.ts';

interface Options {
  isMeasured: boolean;
  isExposed: boolean;
}

const config = { access: { public: true }, isProbe: true } as const;

/**
 * Fastify plugin that measures the duration of every request if `isMeasured` is true, and serves all metrics of the
 * service at `/metrics` if `isExposed` is true.
 */
export default fp(
  async (app, { isMeasured, isExposed }: Options) => {
    measureProcess();
    if (isMeasured) app.addHook('onResponse', measure);
    if (!isExposed) return;
    const metrics = new ServiceMetrics(app);
    app.get('/metrics', { config, schema: { hide: true } }, async (_request, reply) =>
      reply.type(metrics.contentType).send(await metrics.read()),
    );
  },
  { name: 'metrics', dependencies: ['services', 'readiness'] },
);

/**
 * The HTTP methods that are recorded under their own names in the metrics. All other methods are recorded as `_OTHER`.
 */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * Records the duration of a request in a histogram. Unusual HTTP methods are recorded as `_OTHER`, and requests that
 * match no route as the route `unknown`. So callers cannot create an unlimited number of time series.
 */
function measure({ method, routeOptions }: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { url = 'unknown', config } = routeOptions;
  requestDuration
    .labels(methods.has(method) ? method : '_OTHER', config.isRefusal ? 'unknown' : url, String(reply.statusCode))
    .observe(reply.elapsedTime / 1000);
  done();
}
