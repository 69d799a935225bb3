import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Transaction } from '../database/db.ts';
import { answerOf, batchOf, sendRecords } from '../plugins/bodies.ts';
import { activityWrites } from '../queries/crm/activities.ts';
import { contactWrites, companyWrites } from '../queries/crm/record-batches.ts';
import { opportunityWrites } from '../queries/crm/opportunities.ts';
import { productWrites } from '../queries/crm/products.ts';
import type { Batch, ReadOutcome, WriteBatch } from '../queries/records/batches.ts';
import { bulkWriters, withDeferredWrites } from '../queries/records/deferred-writes.ts';
import { snapshot } from '../queries/records/batch-rows.ts';
import * as schemas from '../schemas/batches.ts';
import { type Access, routesOf } from '../schemas/scopes.ts';
import { ErrorBody } from '../schemas/wire.ts';

interface Resource {
  kind: schemas.BatchKind;
  path: string;
  plural: 'contacts' | 'companies' | 'products' | 'opportunities' | 'activities';
  texts: { update: string; delete: string };
  write: WriteBatch;
  read: (sql: Transaction, customerId: string, batch: Pick<Batch, 'match' | 'items'>) => Promise<ReadOutcome<object>[]>;
}

const resources: Resource[] = [
  {
    kind: schemas.contactBatches,
    path: '/contacts',
    plural: 'contacts',
    texts: {
      update:
        '`custom_fields` is merged key by key; `list_ids` replaces the lists that a contact was added to by hand.',
      delete: 'They leave lists and opportunities. ',
    },
    ...contactWrites,
  },
  {
    kind: schemas.companyBatches,
    path: '/company',
    plural: 'companies',
    texts: {
      update: '`custom_fields` is merged key by key.',
      delete: 'Their contacts and opportunities stay, without a company. ',
    },
    ...companyWrites,
  },
  {
    kind: schemas.productBatches,
    path: '/products',
    plural: 'products',
    texts: {
      update: 'A new price does not change opportunities that use the product.',
      delete: 'Opportunities keep their lines with names and prices. ',
    },
    ...productWrites,
  },
  {
    kind: schemas.opportunityBatches,
    path: '/opportunities',
    plural: 'opportunities',
    texts: {
      update:
        '`contacts_ids` replaces the contacts. `products` changes lines, or is an array of all lines that the opportunity ' +
        'then has.',
      delete: 'Their contacts, companies and products stay. ',
    },
    ...opportunityWrites,
  },
  {
    kind: schemas.activityBatches,
    path: '/activities',
    plural: 'activities',
    texts: { update: 'A task that gets another type loses `due_at` and `done_at`.', delete: '' },
    ...activityWrites,
  },
];

const writesOf = ({ kind, plural, texts }: Resource) =>
  ({
    create: {
      summary: `Create many ${plural}`,
      description: `Creates up to 1,000 ${plural} in one call.`,
      access: { scope: `${plural}:create` },
    },
    update: {
      summary: `Update many ${plural}`,
      description:
        `Changes up to 1,000 ${plural} in one call, each as a PATCH does: fields that are not sent stay, \`null\` clears a ` +
        `field that can be null. ${texts.update}`,
      access: { scope: `${plural}:update` },
    },
    upsert: {
      summary: `Update many ${plural}, and create those that do not exist`,
      description:
        `Changes the ${plural} that have the value of \`match\`, each as a PATCH does, and creates one for each other item: up ` +
        'to 1,000 in one call.',
      access: { allScopes: [`${plural}:create`, `${plural}:update`] },
    },
    delete: {
      summary: `Delete many ${plural}`,
      description: `Deletes up to 1,000 ${plural} in one call. ${texts.delete}The deletion can be undone${kind.mayPurge ? ', unless `purge` is true' : ''}.`,
      access: { scope: `${plural}:delete` },
    },
    read: {
      summary: `Read many ${plural}`,
      description:
        `Returns up to 1,000 ${plural} in one call, each as a GET of the ${kind.noun} does. The response is 200 with one ` +
        `result for each item, in the order of the items. An item fails alone if no ${kind.noun} has its value, or several ` +
        'have it.',
      access: { scope: `${plural}:read` },
    },
  }) satisfies Record<string, { summary: string; description: string; access: Access }>;

const batches: FastifyPluginAsyncTypebox = async (app) => {
  for (const resource of resources) {
    const { kind, path, plural, write, read } = resource;
    const { read: reading, ...writes } = writesOf(resource);
    const operations = Object.keys(writes) as (keyof typeof writes)[];
    // An upsert needs a field other than `id` by which it can name a record.
    for (const operation of operations.filter((one) => one !== 'upsert' || schemas.matchesOf(kind, one).length > 0)) {
      const { summary, description, access } = writes[operation];
      app.post(
        `${path}/batch/${operation}`,
        {
          bodyLimit: schemas.maxBatchBytes,
          ...routesOf(plural)(
            `${operation}${kind.title}Batch`,
            summary,
            `${description} ${schemas.batchText}`,
            {
              body: schemas.batchBody(kind, operation),
              response: { 200: schemas.batchAnswer(kind, operation), 404: ErrorBody, 409: schemas.BatchConflict },
            },
            { access, limit: 'bulk', idempotent: true, mayNeedApproval: true, isBatch: true, isChange: true },
          ),
        },
        async (request, reply) => {
          const batch = await batchOf(request, kind, operation);
          const { customerId } = request.caller;
          return bulkWriters.run(request.requester, () =>
            app.once(
              request,
              reply,
              async (sql) =>
                answerOf(
                  await withDeferredWrites(sql, customerId, (deferred) => write(sql, customerId, batch, deferred)),
                ),
              { size: () => ({ records: request.body.items.length }) },
            ),
          );
        },
      );
    }

    const answer = schemas.batchAnswer(kind, 'read');
    app.post(
      `${path}/batch/read`,
      {
        bodyLimit: schemas.maxBatchBytes,
        ...routesOf(plural)(
          `read${kind.title}Batch`,
          reading.summary,
          reading.description,
          { body: schemas.batchBody(kind, 'read'), response: { 200: answer } },
          { access: reading.access, limit: 'bulk', isBatch: true },
        ),
      },
      async (request, reply) => {
        const batch = await batchOf(request, kind, 'read');
        return sendRecords(request, reply, answer, () =>
          snapshot(request.db, (sql) => read(sql, request.caller.customerId, batch)),
        );
      },
    );
  }
};

export default batches;
