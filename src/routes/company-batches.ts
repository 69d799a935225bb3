import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { answerOf, batchOf } from '../plugins/bodies/batches.ts';
import { readCompanyBatch, writeCompanyBatch } from '../queries/crm/company-batches.ts';
import { withLastWrites } from '../queries/records/last-writes.ts';
import {
  BatchConflict,
  batchAnswer,
  batchBody,
  batchText,
  companyBatches as kind,
  matchesOf,
  maxBatchBytes,
} from '../schemas/batches.ts';
import type { Access } from '../schemas/base/scopes.ts';
import { ErrorBody } from '../schemas/base/wire.ts';

const tags = ['companies'];

const writes = {
  create: {
    summary: 'Create many companies',
    description: 'Creates up to 1,000 companies in one call.',
    access: { scope: 'companies:create' },
  },
  update: {
    summary: 'Update many companies',
    description:
      'Changes up to 1,000 companies in one call, each as a PATCH does: fields that are not sent stay, `null` clears a ' +
      'field that can be null. `custom_fields` is merged key by key.',
    access: { scope: 'companies:update' },
  },
  upsert: {
    summary: 'Update many companies, and create those that do not exist',
    description:
      'Changes the companies that have the value of `match`, each as a PATCH does, and creates one for each other item: up ' +
      'to 1,000 in one call.',
    access: { allScopes: ['companies:create', 'companies:update'] },
  },
  delete: {
    summary: 'Delete many companies',
    description:
      'Deletes up to 1,000 companies for good in one call. Their contacts and opportunities stay, without a company.',
    access: { scope: 'companies:delete' },
  },
} as const satisfies Record<string, { summary: string; description: string; access: Access }>;

const companyBatches: FastifyPluginAsyncTypebox = async (app) => {
  const operations = Object.keys(writes) as (keyof typeof writes)[];
  // An upsert needs a field other than `id` by which it can name a company.
  for (const operation of operations.filter((one) => one !== 'upsert' || matchesOf(kind, one).length > 0)) {
    const { summary, description, access } = writes[operation];
    app.post(
      `/company/batch/${operation}`,
      {
        bodyLimit: maxBatchBytes,
        config: { access, limit: 'bulk', idempotent: true, isBatch: true },
        schema: {
          operationId: `${operation}CompanyBatch`,
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
            writeCompanyBatch(sql, customerId, batch, last),
          );
          return { status: 200, body: answerOf(outcomes) };
        });
      },
    );
  }

  app.post(
    '/company/batch/read',
    {
      bodyLimit: maxBatchBytes,
      config: { access: { scope: 'companies:read' }, limit: 'bulk', isBatch: true },
      schema: {
        operationId: 'readCompanyBatch',
        summary: 'Read many companies',
        description:
          'Returns up to 1,000 companies in one call, each as a GET of the company does. The response is 200 with one ' +
          'result for each item, in the order of the items. An item fails alone if no company has its value, or several ' +
          'have it.',
        tags,
        body: batchBody(kind, 'read'),
        response: { 200: batchAnswer(kind, 'read') },
      },
    },
    async (request) => {
      const batch = await batchOf(request, kind, 'read');
      return answerOf(await request.db.search((sql) => readCompanyBatch(sql, request.caller.customerId, batch)));
    },
  );
};

export default companyBatches;
