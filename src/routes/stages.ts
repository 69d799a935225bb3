import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { rowsOf } from '../plugins/record-list-routes.ts';
import { listStages } from '../queries/sales/stages.ts';
import { StageListItem, StageQuery } from '../schemas/pipelines.ts';
import { ErrorBody } from '../schemas/base/wire.ts';

const stages: FastifyPluginAsyncTypebox = async (app) => {
  // Listing answers with 201, as the contract requires.
  app.post(
    '/stages/list',
    {
      config: { access: { scope: 'stages:read' } },
      schema: {
        operationId: 'listStages',
        summary: 'List the stages of a pipeline',
        description:
          'Returns one page of the stages of a pipeline, sorted by `order`, each with the number of its ' +
          'opportunities. Opportunities need the id of a stage. The status of success is 201.',
        tags: ['pipelines'],
        body: StageQuery,
        response: { 201: Type.Array(StageListItem), 404: ErrorBody },
      },
    },
    async ({ db, caller, body }, reply) => {
      return rowsOf(reply.code(201), await listStages(db, caller.customerId, body));
    },
  );
};

export default stages;
