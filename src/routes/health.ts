import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { checkSchema } from '../database/migrations.ts';
import { hasWorkersForJobs } from '../queries/backlog.ts';
import { Enum } from '../schemas/wire.ts';

const Readiness = Type.Object({
  // `stopping`: the process got SIGTERM. It still serves requests, but load balancers should send it no more.
  status: Enum(['ready', 'not ready', 'stopping']),
  checks: Type.Object({
    postgres: Enum(['up', 'down']),
    // `ahead` is ready if the newer release's migrations say that this release can run on their result.
    schema: Enum(['current', 'behind', 'ahead', 'unknown']),
    // Without the catalog, everything except /prospect/* works, so the service counts as ready.
    catalog: Enum(['up', 'degraded']),
    // Without the shared server, each process counts rate limits alone.
    rate_limits: Enum(['up', 'degraded']),
    // A job has waited for a minute, and no worker process was seen for a minute. Calls still work.
    workers: Enum(['up', 'degraded']),
    // The last write failed because the disk of the database is full. Reads still work.
    storage: Enum(['up', 'degraded']),
  }),
});

const config = { access: { public: true }, isProbe: true } as const;

/** Routes for operators: whether the process is alive, and whether it can serve requests. */
const health: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/healthz',
    {
      config,
      schema: {
        summary: 'Is the process alive?',
        tags: ['health'],
        response: { 200: Type.Object({ status: Type.Literal('ok') }) },
      },
    },
    async () => ({ status: 'ok' as const }),
  );

  app.get(
    '/readyz',
    {
      config,
      schema: {
        summary: 'Is the service ready for requests?',
        tags: ['health'],
        response: { 200: Readiness, 503: Readiness },
      },
    },
    async (request, reply) => {
      const [schema, hasWorkers, catalog, rateLimits] = await Promise.all([
        request.db.lookup(checkSchema).catch(() => undefined),
        request.db.lookup(hasWorkersForJobs).catch(() => true),
        app.catalog.isUp(),
        app.rateLimits.isUp(),
      ]);
      const checks = {
        postgres: schema ? ('up' as const) : ('down' as const),
        schema: schema?.state ?? ('unknown' as const),
        catalog: upOrDegraded(catalog),
        rate_limits: upOrDegraded(rateLimits),
        workers: upOrDegraded(hasWorkers),
        storage: upOrDegraded(!app.db.isDiskFull),
      };
      if (app.isStopping) return reply.code(503).send({ status: 'stopping', checks });
      const ready = schema?.isSupported === true;
      return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not ready', checks });
    },
  );
};

const upOrDegraded = (isUp: boolean) => (isUp ? ('up' as const) : ('degraded' as const));

export default health;
