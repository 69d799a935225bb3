import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { checkSchema } from '../database/migrations.ts';
import { readJobHealth } from '../queries/jobs/backlog.ts';
import { Enum } from '../schemas/base/wire.ts';

const Readiness = Type.Object(
  {
    status: Enum(
      ['ready', 'not ready', 'stopping'],
      '`stopping`: the process got SIGTERM. It still serves requests, but load balancers should send it no more.',
    ),
    checks: Type.Object(
      {
        postgres: Enum(['up', 'down'], 'Whether the database can be reached.'),
        schema: Enum(
          ['current', 'behind', 'ahead', 'unknown'],
          'The schema of the database, compared with this release. `ahead` is ready if the newer release says that this one can run on it.',
        ),
        catalog: Enum(
          ['up', 'degraded'],
          '`degraded`: the prospect catalog is unavailable. Everything except `/prospect/*` works.',
        ),
        rate_limits: Enum(
          ['up', 'degraded'],
          '`degraded`: the shared server is unavailable. Each process counts rate limits alone.',
        ),
        workers: Enum(
          ['up', 'degraded'],
          '`degraded`: a job has waited for a minute, and no worker was seen for a minute. Calls still work.',
        ),
        verification: Enum(
          ['up', 'degraded'],
          '`degraded`: the name server of the workers knows no domain, so verifications wait. Calls still work.',
        ),
        webhooks: Enum(
          ['up', 'degraded'],
          '`degraded`: there is no `WEBHOOK_SECRET_KEY`. Webhooks wait, and none can be created.',
        ),
        storage: Enum(
          ['up', 'degraded'],
          '`degraded`: the last write failed because the disk of the database is full. Reads still work.',
        ),
      },
      { description: 'The state of what the service needs.' },
    ),
  },
  { title: 'Readiness' },
);

/** How long the result of a readiness check is reused (ms). */
const checkMs = 250;

/** Shares one call of `read` between callers, until `ms` after it has ended. */
function sharedFor<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let shared: Promise<T> | undefined;
  return () =>
    (shared ??= read().finally(() => {
      setTimeout(() => (shared = undefined), ms).unref();
    }));
}

const config = { access: { public: true }, isProbe: true } as const;

const health: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/healthz',
    {
      config,
      schema: {
        operationId: 'getHealth',
        summary: 'Is the process alive?',
        description: 'Returns 200 while the process can answer. It does not look at the database.',
        tags: ['health'],
        response: {
          200: Type.Object({ status: Type.Literal('ok', { description: 'Always `ok`.' }) }, { title: 'Health' }),
        },
      },
    },
    async () => ({ status: 'ok' as const }),
  );

  const check = sharedFor(checkMs, () =>
    Promise.all([
      app.db.health.service(checkSchema).catch(() => undefined),
      app.db.health.allCustomers(readJobHealth).catch(() => ({ has_workers: true, has_names: true })),
      app.catalog.isUp(),
      app.rateLimits.isUp(),
    ]),
  );

  app.get(
    '/readyz',
    {
      config,
      schema: {
        operationId: 'getReadiness',
        summary: 'Is the service ready for requests?',
        description:
          'Returns 200 if the service can serve requests, otherwise 503, with the state of everything that it ' +
          'needs. `degraded` parts do not make it unready.',
        tags: ['health'],
        response: { 200: Readiness, 503: Readiness },
      },
    },
    async (_request, reply) => {
      const [schema, jobs, catalog, rateLimits] = await check();
      const checks = {
        postgres: schema ? ('up' as const) : ('down' as const),
        schema: schema?.state ?? ('unknown' as const),
        catalog: upOrDegraded(catalog),
        rate_limits: upOrDegraded(rateLimits),
        workers: upOrDegraded(jobs.has_workers),
        verification: upOrDegraded(jobs.has_names),
        webhooks: upOrDegraded(app.config.WEBHOOK_SECRET_KEY !== undefined),
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
