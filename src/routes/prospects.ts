import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { rowsOf } from '../plugins/record-routes.ts';
import { matchProspects } from '../catalog/matching.ts';
import { countProspects, listProspects } from '../catalog/prospects.ts';
import { listRemovals } from '../queries/jobs/privacy.ts';
import { ProspectMatch, ProspectMatches } from '../schemas/clean-data.ts';
import * as schemas from '../schemas/prospects.ts';
import { routesOf } from '../schemas/scopes.ts';

const about = routesOf('prospects', { access: { scope: 'prospect:read' } });
const limited = { limit: 'prospects' } as const;

/** Adds the routes of prospects. The contract requires the status 201 for successful searches by filters. */
const prospects: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/prospect/filters',
    about(
      'suggestProspectFilters',
      'Suggest filter values',
      'Returns up to 10 values that prospects have in a field, for an input with suggestions: those of which a ' +
        'word begins with `search`, the most frequent first. The status of success is 201. If the search cluster ' +
        'is unavailable, the response is 503.',
      { body: schemas.SuggestionQuery, response: { 201: Type.Array(schemas.Suggestion) } },
    ),
    async ({ catalog, body }, reply) => reply.code(201).send(await catalog.suggest(body)),
  );

  app.post(
    '/prospect/metadata',
    about(
      'countProspects',
      'Count prospects',
      'Returns how many prospects match, and the filters as the service understood them. `total_pages` counts ' +
        'the pages that can be reached by number: page × limit must not exceed 10,000. The status of success is ' +
        '201.',
      { body: schemas.ProspectCount, response: { 201: schemas.ProspectMetadata } },
      limited,
    ),
    async (request, reply) =>
      reply.code(201).send(await countProspects(servicesOf(request), request.caller.customerId, request.body)),
  );

  app.post(
    '/prospect/list',
    about(
      'listProspects',
      'List prospects',
      'Returns one page of the prospects that match `filters`, by default those that you have not unlocked yet, ' +
        'highest score first. E-mail addresses and phone numbers are masked until a prospect is unlocked. Reading ' +
        'costs no credits. By page number the first 10,000 prospects can be reached; the cursor goes on without ' +
        'end. The status of success is 201.',
      { body: schemas.ProspectQuery, response: { 201: Type.Array(schemas.Prospect) } },
      limited,
    ),
    async (request, reply) => {
      const rows = rowsOf(reply, await listProspects(servicesOf(request), request.caller.customerId, request.body));
      return reply.code(201).send(rows);
    },
  );

  app.post(
    '/prospect/match',
    about(
      'matchProspects',
      'Find people in the catalog',
      'Finds up to 100 people in the whole catalog, by exact comparison: the URL of the profile (whatever its scheme, ' +
        '`www.`, query and closing `/`), else first name, last name and company name, all without regard to case and ' +
        'accents. The first of these that finds somebody decides. Contact data is masked as in lists. It costs no ' +
        'credits.',
      { body: ProspectMatch, response: { 200: ProspectMatches } },
      limited,
    ),
    async (request) => matchProspects(servicesOf(request), request.caller.customerId, request.body),
  );

  app.post(
    '/prospect/removals',
    about(
      'listProspectRemovals',
      'List removed prospects',
      'Returns the prospects that you had unlocked and that were erased from the catalog, because the person asked ' +
        'for it: latest first. Your contacts that came from them have `removal_requested_at`; what you do with ' +
        'them is your decision. A full page has the header `x-next-cursor`.',
      { body: schemas.RemovalQuery, response: { 200: Type.Array(schemas.Removal) } },
    ),
    async ({ db, caller, body }, reply) => rowsOf(reply, await listRemovals(db, caller.customerId, body)),
  );
};

export default prospects;

const servicesOf = ({ server, db, catalog }: FastifyRequest) => ({ config: server.config, db, catalog });
