import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { unlessAborted } from '../credentials/requester.ts';
import { recordReader } from '../database/batch-lookups.ts';
import { notFound } from '../errors.ts';
import { etagOf } from '../text/etag.ts';
import { findPipelines, listPipelines } from '../queries/sales/pipelines.ts';
import { Pipeline, PipelineListItem } from '../schemas/pipelines.ts';
import { IdParams } from '../schemas/base/wire.ts';

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
};

export default pipelines;
