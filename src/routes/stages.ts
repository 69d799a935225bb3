import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { listStages } from '../queries/stages.ts';
import { StageListItem, StageQuery } from '../schemas/pipelines.ts';
import { ErrorBody } from '../schemas/wire.ts';

/** Routes for the stages of a customer's pipelines. */
const stages: FastifyPluginAsyncTypebox = async (app) => {
  // Listing answers with 201, as the contract requires.
  app.post(
    '/stages/list',
    {
      config: { access: { scope: 'stages:read' } },
      schema: {
        summary: "List a pipeline's stages in their order",
        tags: ['pipelines'],
        body: StageQuery,
        response: { 201: Type.Array(StageListItem), 404: ErrorBody },
      },
    },
    async ({ db, caller, body }, reply) => {
      const rows = await db.search((sql) => listStages(sql, caller.customerId, body));
      return reply.code(201).send(rows);
    },
  );
};

export default stages;
