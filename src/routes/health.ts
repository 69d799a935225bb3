import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Enum, Named, Described } from '../schemas/wire.ts';
import { routesOf } from '../schemas/scopes.ts';

const Part = (text: string) => Enum(['up', 'degraded'], `\`degraded\`: ${text}`);

const Readiness = Named('Readiness', {
  status: Enum(
    ['ready', 'not ready', 'stopping'],
    '`stopping`: the process got SIGTERM. It still serves requests, but load balancers should send it no more.',
  ),
  checks: Described('The state of what the service needs.', {
    postgres: Enum(['up', 'down'], 'Whether the database can be reached.'),
    schema: Enum(
      ['current', 'behind', 'ahead', 'unknown'],
      'The schema of the database, compared with this release. `ahead` is ready if the newer release says that this one can run on it.',
    ),
    catalog: Part('the prospect catalog is unavailable. Everything except `/prospect/*` works.'),
    rate_limits: Part('the shared server is unavailable. Each process counts rate limits alone.'),
    workers: Part('a job has waited for a minute, and no worker was seen for a minute. Calls still work.'),
    verification: Part('the name server of the workers knows no domain, so verifications wait. Calls still work.'),
    webhooks: Part('there is no `WEBHOOK_SECRET_KEY`. Webhooks wait, and none can be created.'),
    storage: Part('the last write failed because the disk of the database is full. Reads still work.'),
  }),
});

const about = routesOf('health', { access: { public: true }, isProbe: true });

const health: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/healthz',
    about(
      'getHealth',
      'Is the process alive?',
      'Returns 200 while the process can answer. It does not look at the database.',
      {
        response: {
          200: Type.Object({ status: Type.Literal('ok', { description: 'Always `ok`.' }) }, { title: 'Health' }),
        },
      },
    ),
    async () => ({ status: 'ok' as const }),
  );

  app.get(
    '/readyz',
    about(
      'getReadiness',
      'Is the service ready for requests?',
      'Returns 200 if the service can serve requests, otherwise 503, with the state of everything that it ' +
        'needs. `degraded` parts do not make it unready.',
      { response: { 200: Readiness, 503: Readiness } },
    ),
    async (_request, reply) => {
      const { isReady, checks } = await app.readiness();
      if (app.isStopping) return reply.code(503).send({ status: 'stopping', checks });
      return reply.code(isReady ? 200 : 503).send({ status: isReady ? 'ready' : 'not ready', checks });
    },
  );
};

export default health;
