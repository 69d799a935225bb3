import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { measureProcess, requestDuration } from '../metrics.ts';
import { ServiceMetrics } from './service-metrics.ts';

interface Options {
  /** Whether the requests of this app are measured. */
  isMeasured: boolean;
  /** Whether this app serves `GET /metrics`. */
  isExposed: boolean;
}

const config = { access: { public: true }, isProbe: true } as const;

/** Measures the duration of every request if `isMeasured`, and serves all metrics at `/metrics` if `isExposed`. */
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
  { name: 'metrics', dependencies: ['services'] },
);

/** The methods that routes of the service support. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/**
 * Records the duration of a request. A series exists forever, so callers must not be able to create many: methods that
 * no route supports count as `_OTHER`, and a route counts only with the methods that it supports.
 */
function measure({ method, routeOptions }: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { url = 'unknown', config } = routeOptions;
  requestDuration
    .labels(methods.has(method) ? method : '_OTHER', config.isRefusal ? 'unknown' : url, String(reply.statusCode))
    .observe(reply.elapsedTime / 1000);
  done();
}
