import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Readiness } from '../schemas/health.ts';
import { routesOf } from '../schemas/scopes.ts';

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
