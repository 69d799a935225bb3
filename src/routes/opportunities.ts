import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  exportOpportunities,
  findOpportunities,
  listOpportunities,
  opportunityWrites,
} from '../queries/crm/opportunities.ts';
import { findPipelines, listPipelines, listStages } from '../queries/crm/pipelines.ts';
import { ErrorBody, IdParams } from '../schemas/wire.ts';
import * as schemas from '../schemas/opportunities.ts';
import { addRecordLists, readOne, rowsOf, recordRoutes } from '../plugins/record-routes.ts';
import { OpportunityExport } from '../schemas/files.ts';
import { routesOf } from '../schemas/scopes.ts';

const opportunities: FastifyPluginAsyncTypebox = async (app) => {
  const kind = { path: '/opportunities', scope: 'opportunities', noun: 'opportunity' } as const;
  const one = recordRoutes(app, kind);

  addRecordLists(app, {
    ...kind,
    schemas: { list: schemas.OpportunityQuery, export: OpportunityExport, shown: schemas.Opportunity },
    listText: ', with their products. The status of success is 201.',
    listStatus: 201, // as the contract requires
    list: listOpportunities,
    export: exportOpportunities,
  });

  one.create(schemas.OpportunityCreate, opportunityWrites.create, {
    description:
      'Creates an opportunity in a stage of a pipeline and links it to contacts, a company, products and a ' +
      'user. Its `price` is the sum of its lines. An unknown id in the body is 404, an `external_id` that another ' +
      'opportunity has is 409; nothing is created then.',
    errors: [404, 409],
  });

  one.read(schemas.Opportunity, findOpportunities, {
    description: 'Returns one opportunity with its products. The header `etag` holds its version.',
  });

  one.update(schemas.OpportunityPatch, opportunityWrites.update, {
    description:
      'Changes the fields that are sent; others stay. `contacts_ids` replaces the contacts; `products` adds, ' +
      'removes and changes lines, all or none. Adding a product that is there already is 409; changing or ' +
      'removing one that is not there is 404. With `If-Match` the opportunity is changed only if it still has ' +
      'that version (else 412).',
    errors: [409],
  });

  one.remove(opportunityWrites.remove, {
    description:
      'Deletes an opportunity. Its contacts, company and products stay. With `If-Match` it is deleted ' +
      'only if it still has that version (else 412).',
  });

  addPipelines(app);
};

const about = routesOf('pipelines', { access: { scope: 'pipelines:read' } });
function addPipelines(app: Parameters<FastifyPluginAsyncTypebox>[0]): void {
  app.get(
    '/pipelines',
    about(
      'listPipelines',
      'List pipelines',
      'Returns all pipelines of the customer, without their stages. Pipelines cannot be changed by API keys.',
      { response: { 200: Type.Array(schemas.PipelineListItem) } },
    ),
    async ({ db, caller }) => db.lookup((sql) => listPipelines(sql, caller.customerId)),
  );

  app.get(
    '/pipelines/:id',
    about(
      'getPipeline',
      'Read a pipeline',
      'Returns one pipeline with its stages, sorted by `order`. The header `etag` holds its version.',
      { params: IdParams, response: { 200: schemas.Pipeline } },
      { etag: true },
    ),
    readOne(app, 'pipeline', findPipelines),
  );

  // Listing answers with 201, as the contract requires.
  app.post(
    '/stages/list',
    about(
      'listStages',
      'List the stages of a pipeline',
      'Returns one page of the stages of a pipeline, sorted by `order`, each with the number of its ' +
        'opportunities. Opportunities need the id of a stage. The status of success is 201.',
      { body: schemas.StageQuery, response: { 201: Type.Array(schemas.StageListItem), 404: ErrorBody } },
      { access: { scope: 'stages:read' } },
    ),
    async ({ db, caller, body }, reply) => rowsOf(reply.code(201), await listStages(db, caller.customerId, body)),
  );
}

export default opportunities;
