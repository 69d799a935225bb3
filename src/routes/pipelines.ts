import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { unlessAborted } from '../credentials/requester.ts';
import { recordReader } from '../database/batch-lookups.ts';
import { notFound } from '../errors.ts';
import { etagOf } from '../text/etag.ts';
import { rowsOf } from '../plugins/record-list-routes.ts';
import { findPipelines, listPipelines } from '../queries/sales/pipelines.ts';
import { listStages } from '../queries/sales/stages.ts';
import { Pipeline, PipelineListItem, StageListItem, StageQuery } from '../schemas/pipelines.ts';
import { ErrorBody, IdParams } from '../schemas/base/wire.ts';

const config = { access: { scope: 'pipelines:read' } } as const;
const tags = ['pipelines'];

/** Read only: pipelines are created on the command line. */
const pipelines: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/pipelines',
    {
      config,
      schema: {
        operationId: 'listPipelines',
        summary: 'List pipelines',
        description:
          'Returns all pipelines of the customer, without their stages. Pipelines cannot be changed by API keys.',
        tags,
        response: { 200: Type.Array(PipelineListItem) },
      },
    },
    async ({ db, caller }) => db.lookup((sql) => listPipelines(sql, caller.customerId)),
  );

  const read = recordReader(app.db, findPipelines);
  app.get(
    '/pipelines/:id',
    {
      config: { ...config, etag: true },
      schema: {
        operationId: 'getPipeline',
        summary: 'Read a pipeline',
        description: 'Returns one pipeline with its stages, sorted by `order`. The header `etag` holds its version.',
        tags,
        params: IdParams,
        response: { 200: Pipeline },
      },
    },
    async (request, reply) => {
      const { caller, params, requester } = request;
      const pipeline = await unlessAborted(read(caller.customerId, params.id), requester.signal);
      if (!pipeline) throw notFound('pipeline');
      return reply.header('etag', etagOf(pipeline)).send(pipeline);
    },
  );

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

export default pipelines;
