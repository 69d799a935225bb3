import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { answerOf, batchOf } from '../plugins/bodies/batches.ts';
import { readContactBatch, writeContactBatch } from '../queries/crm/contact-batches.ts';
import { withLastWrites } from '../queries/records/last-writes.ts';
import {
  BatchConflict,
  batchAnswer,
  batchBody,
  batchText,
  contactBatches as kind,
  maxBatchBytes,
} from '../schemas/batches.ts';
import type { Access } from '../schemas/base/scopes.ts';
import { ErrorBody } from '../schemas/base/wire.ts';

const tags = ['contacts'];

const writes = {
  create: {
    summary: 'Create many contacts',
    description: 'Creates up to 1,000 contacts in one call.',
    access: { scope: 'contacts:create' },
  },
  update: {
    summary: 'Update many contacts',
    description:
      'Changes up to 1,000 contacts in one call, each as a PATCH does: fields that are not sent stay, `null` clears a ' +
      'field that can be null. `custom_fields` is merged key by key; `list_ids` replaces the lists that a contact was added to by hand.',
    access: { scope: 'contacts:update' },
  },
  upsert: {
    summary: 'Update many contacts, and create those that do not exist',
    description:
      'Changes the contacts that have the value of `match`, each as a PATCH does, and creates one for each other item: up ' +
      'to 1,000 in one call.',
    access: { allScopes: ['contacts:create', 'contacts:update'] },
  },
  delete: {
    summary: 'Delete many contacts',
    description: 'Deletes up to 1,000 contacts for good in one call. They leave lists and opportunities.',
    access: { scope: 'contacts:delete' },
  },
} as const satisfies Record<string, { summary: string; description: string; access: Access }>;

const contactBatches: FastifyPluginAsyncTypebox = async (app) => {
  for (const operation of Object.keys(writes) as (keyof typeof writes)[]) {
    const { summary, description, access } = writes[operation];
    app.post(
      `/contacts/batch/${operation}`,
      {
        bodyLimit: maxBatchBytes,
        config: { access, limit: 'bulk', idempotent: true, isBatch: true },
        schema: {
          operationId: `${operation}ContactBatch`,
          summary,
          description: `${description} ${batchText}`,
          tags,
          body: batchBody(kind, operation),
          response: { 200: batchAnswer(kind, operation), 404: ErrorBody, 409: BatchConflict },
        },
      },
      async (request, reply) => {
        const batch = await batchOf(request, kind, operation);
        return app.once(request, reply, async (sql) => {
          const { customerId } = request.caller;
          const outcomes = await withLastWrites(sql, customerId, (last) =>
            writeContactBatch(sql, customerId, batch, last),
          );
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
        operationId: 'readContactBatch',
        summary: 'Read many contacts',
        description:
          'Returns up to 1,000 contacts in one call, each as a GET of the contact does. The response is 200 with one ' +
          'result for each item, in the order of the items. An item fails alone if no contact has its value, or several ' +
          'have it.',
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
