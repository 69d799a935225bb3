import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { notFound } from '../errors.ts';
import { etagOf } from '../text/etag.ts';
import {
  updateOpportunity,
  createOpportunity,
  deleteOpportunity,
  findOpportunities,
  listOpportunities,
} from '../queries/sales/opportunities.ts';
import { Opportunity, OpportunityCreate, OpportunityPatch } from '../schemas/opportunities.ts';
import { done, DoneWithId, ErrorBody, IdParams, PageQuery } from '../schemas/base/wire.ts';

const tags = ['opportunities'];

const opportunities: FastifyPluginAsyncTypebox = async (app) => {
  // Listing answers with 201, as the contract requires.
  app.post(
    '/opportunities/list',
    {
      config: { access: { scope: 'opportunities:read' } },
      schema: {
        operationId: 'listOpportunities',
        summary: 'List opportunities',
        description:
          'Returns one page of the opportunities, newest first, with their products. The status of success is 201.',
        tags,
        body: PageQuery,
        response: { 201: Type.Array(Opportunity) },
      },
    },
    async ({ db, caller, body }, reply) => {
      const rows = await db.search((sql) => listOpportunities(sql, caller.customerId, body.paginate));
      return reply.code(201).send(rows);
    },
  );

  app.post(
    '/opportunities',
    {
      config: { access: { scope: 'opportunities:create' }, idempotent: true },
      schema: {
        operationId: 'createOpportunity',
        summary: 'Create an opportunity',
        description:
          'Creates an opportunity in a stage of a pipeline and links it to contacts, a company, products and a ' +
          'user. Its `price` is the sum of its lines. An unknown id in the body is 404, and nothing is created.',
        tags,
        body: OpportunityCreate,
        response: { 201: DoneWithId, 404: ErrorBody },
      },
    },
    async (request, reply) =>
      app.once(request, reply, async (sql) => {
        const id = await createOpportunity(sql, request.caller.customerId, request.body);
        return { status: 201, body: done('Opportunity created', id) };
      }),
  );

  app.get(
    '/opportunities/:id',
    {
      config: { access: { scope: 'opportunities:read' }, etag: true, record: findOpportunities },
      schema: {
        operationId: 'getOpportunity',
        summary: 'Read an opportunity',
        description: 'Returns one opportunity with its products. The header `etag` holds its version.',
        tags,
        params: IdParams,
        response: { 200: Opportunity },
      },
    },
    async (request, reply) => {
      const opportunity = await request.record(findOpportunities);
      if (!opportunity) throw notFound('opportunity');
      return reply.header('etag', etagOf(opportunity)).send(opportunity);
    },
  );

  app.patch(
    '/opportunities/:id',
    {
      config: { access: { scope: 'opportunities:update' } },
      schema: {
        operationId: 'updateOpportunity',
        summary: 'Update an opportunity',
        description:
          'Changes the fields that are sent; others stay. `contacts_ids` replaces the contacts; `products` adds, ' +
          'removes and changes lines, all or none. Adding a product that is there already is 409; changing or ' +
          'removing one that is not there is 404. With `If-Match` the opportunity is changed only if it still has ' +
          'that version (else 412).',
        tags,
        params: IdParams,
        body: OpportunityPatch,
        response: { 200: DoneWithId, 409: ErrorBody, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, body, headers }) => {
      await db.transaction((sql) => updateOpportunity(sql, caller.customerId, params.id, body, headers['if-match']));
      return done('Opportunity updated', params.id);
    },
  );

  app.delete(
    '/opportunities/:id',
    {
      config: { access: { scope: 'opportunities:delete' } },
      schema: {
        operationId: 'deleteOpportunity',
        summary: 'Delete an opportunity',
        description:
          'Deletes an opportunity for good. Its contacts, company and products stay. With `If-Match` it is deleted ' +
          'only if it still has that version (else 412).',
        tags,
        params: IdParams,
        response: { 200: DoneWithId, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, headers }) => {
      await db.transaction((sql) => deleteOpportunity(sql, caller.customerId, params.id, headers['if-match']));
      return done('Opportunity deleted', params.id);
    },
  );
};

export default opportunities;
