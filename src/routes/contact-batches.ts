import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { answerOf, batchOf } from '../plugins/batches.ts';
import { readContactBatch, writeContactBatch } from '../queries/contact-batches.ts';
import { BatchConflict, batchAnswer, batchBody, contactBatches as kind, maxBatchBytes } from '../schemas/batches.ts';
import type { Access } from '../schemas/scopes.ts';
import { ErrorBody } from '../schemas/wire.ts';

const tags = ['contacts'];

/** The batches that write contacts, and who may call them. */
const writes = {
  create: { summary: 'Create many contacts', access: { scope: 'contacts:create' } },
  update: { summary: 'Update many contacts', access: { scope: 'contacts:update' } },
  upsert: {
    summary: 'Update many contacts, and create those that do not exist',
    access: { allScopes: ['contacts:create', 'contacts:update'] },
  },
  delete: { summary: 'Delete many contacts', access: { scope: 'contacts:delete' } },
} as const satisfies Record<string, { summary: string; access: Access }>;

/** Routes that create, change, delete and read up to 1,000 contacts of a customer in one call. */
const contactBatches: FastifyPluginAsyncTypebox = async (app) => {
  for (const operation of Object.keys(writes) as (keyof typeof writes)[]) {
    const { summary, access } = writes[operation];
    app.post(
      `/contacts/batch/${operation}`,
      {
        bodyLimit: maxBatchBytes,
        config: { access, limit: 'bulk', idempotent: true, isBatch: true },
        schema: {
          summary,
          tags,
          body: batchBody(kind, operation),
          response: { 200: batchAnswer(kind, operation), 404: ErrorBody, 409: BatchConflict },
        },
      },
      async (request, reply) => {
        const batch = await batchOf(request, kind, operation);
        return app.once(request, reply, async (sql) => {
          const outcomes = await writeContactBatch(sql, request.caller.customerId, batch);
          return { status: 200, body: answerOf(outcomes) };
        });
      },
    );
  }

  app.post(
    '/contacts/batch/read',
    {
      bodyLimit: maxBatchBytes,
      config: { access: { scope: 'contacts:read' }, limit: 'bulk', isBatch: true },
      schema: {
        summary: 'Read many contacts',
        tags,
        body: batchBody(kind, 'read'),
        response: { 200: batchAnswer(kind, 'read') },
      },
    },
    async (request) => {
      const batch = await batchOf(request, kind, 'read');
      return answerOf(await request.db.search((sql) => readContactBatch(sql, request.caller.customerId, batch)));
    },
  );
};

export default contactBatches;
