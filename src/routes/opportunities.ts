import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  updateOpportunity,
  createOpportunity,
  deleteOpportunity,
  findOpportunities,
  listOpportunities,
} from '../queries/sales/opportunities.ts';
import { Opportunity, OpportunityCreate, OpportunityPatch, OpportunityQuery } from '../schemas/opportunities.ts';
import { rowsOf } from '../plugins/record-list-routes.ts';
import { pageById } from '../queries/records/paging.ts';
import { recordRoutes } from '../plugins/record-routes.ts';

const tags = ['opportunities'];

const opportunities: FastifyPluginAsyncTypebox = async (app) => {
  const one = recordRoutes(app, {
    path: '/opportunities',
    tags,
    scope: 'opportunities',
    operation: 'Opportunity',
    title: 'an opportunity',
    noun: 'opportunity',
  });

  // Listing answers with 201, as the contract requires.
  app.post(
    '/opportunities/list',
    {
      config: { access: { scope: 'opportunities:read' } },
      schema: {
        operationId: 'listOpportunities',
        summary: 'List opportunities',
        description:
          'Returns one page of the opportunities that match `filters`, newest first, with their products. The status of ' +
          'success is 201.',
        tags,
        body: OpportunityQuery,
        response: { 201: Type.Array(Opportunity) },
      },
    },
    async ({ db, caller, body }, reply) => {
      const { customerId } = caller;
      const { filters = {} } = body;
      const page = await pageById(['opportunities', filters], customerId, body.paginate, (paginate) =>
        db.search((sql) => listOpportunities(sql, customerId, { filters, paginate })),
      );
      return rowsOf(reply.code(201), page);
    },
  );

  one.create(OpportunityCreate, createOpportunity, {
    description:
      'Creates an opportunity in a stage of a pipeline and links it to contacts, a company, products and a ' +
      'user. Its `price` is the sum of its lines. An unknown id in the body is 404, and nothing is created.',
    errors: [404],
  });

  one.read(Opportunity, findOpportunities, {
    description: 'Returns one opportunity with its products. The header `etag` holds its version.',
  });

  one.update(OpportunityPatch, updateOpportunity, {
    description:
      'Changes the fields that are sent; others stay. `contacts_ids` replaces the contacts; `products` adds, ' +
      'removes and changes lines, all or none. Adding a product that is there already is 409; changing or ' +
      'removing one that is not there is 404. With `If-Match` the opportunity is changed only if it still has ' +
      'that version (else 412).',
    errors: [409],
  });

  one.remove(deleteOpportunity, {
    description:
      'Deletes an opportunity for good. Its contacts, company and products stay. With `If-Match` it is deleted ' +
      'only if it still has that version (else 412).',
  });
};

export default opportunities;
