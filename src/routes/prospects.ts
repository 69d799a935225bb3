import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { countProspects, listProspects } from '../catalog/prospects.ts';
import {
  Prospect,
  ProspectCount,
  ProspectMetadata,
  ProspectQuery,
  Suggestion,
  SuggestionQuery,
} from '../schemas/prospects.ts';

const tags = ['prospects'];
const access = { scope: 'prospect:read' } as const;
const reading = { access, limit: 'prospects' } as const;

/**
 * Routes to search the prospect catalog: people whose contact data customers can unlock. The API contract requires
 * status 201 for all of these routes.
 */
const prospects: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/prospect/filters',
    {
      config: { access },
      schema: {
        summary: 'Suggest filter values',
        tags,
        body: SuggestionQuery,
        response: { 201: Type.Array(Suggestion) },
      },
    },
    async ({ catalog, body }, reply) => reply.code(201).send(await catalog.suggest(body)),
  );

  app.post(
    '/prospect/metadata',
    {
      config: reading,
      schema: { summary: 'Count prospects', tags, body: ProspectCount, response: { 201: ProspectMetadata } },
    },
    async (request, reply) =>
      reply.code(201).send(await countProspects(servicesOf(request), request.caller.customerId, request.body)),
  );

  app.post(
    '/prospect/list',
    {
      config: reading,
      schema: { summary: 'List prospects', tags, body: ProspectQuery, response: { 201: Type.Array(Prospect) } },
    },
    async (request, reply) => {
      const page = await listProspects(servicesOf(request), request.caller.customerId, request.body);
      if (page.nextCursor) void reply.header('x-next-cursor', page.nextCursor);
      return reply.code(201).send(page.rows);
    },
  );
};

export default prospects;

const servicesOf = ({ server, db, catalog }: FastifyRequest) => ({ config: server.config, db, catalog });
