import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { notFound } from '../errors.ts';
import { etagOf } from '../etag.ts';
import {
  updateOpportunity,
  createOpportunity,
  deleteOpportunity,
  findOpportunities,
  listOpportunities,
} from '../queries/opportunities.ts';
import { Opportunity, OpportunityCreate, OpportunityPatch } from '../schemas/opportunities.ts';
import { done, DoneWithId, ErrorBody, IdParams, PageQuery } from '../schemas/wire.ts';

const tags = ['opportunities'];

/** Routes for the opportunities of a customer. */
const opportunities: FastifyPluginAsyncTypebox = async (app) => {
  // Listing answers with 201, as the contract requires.
  app.post(
    '/opportunities/list',
    {
      config: { access: { scope: 'opportunities:read' } },
      schema: { summary: 'List opportunities', tags, body: PageQuery, response: { 201: Type.Array(Opportunity) } },
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
        summary: 'Create an opportunity',
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
      schema: { summary: 'Read an opportunity', tags, params: IdParams, response: { 200: Opportunity } },
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
        summary: 'Update an opportunity',
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
        summary: 'Delete an opportunity',
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
