import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { findDuplicates } from '../queries/crm/duplicates.ts';
import {
  CompanyDuplicates,
  ContactDuplicates,
  DuplicateGroup,
  type DuplicateKey,
} from '../schemas/clean-data/duplicates.ts';
import { rowsOf } from '../plugins/record-list-routes.ts';
import type { PageOrCursor } from '../queries/records/paging.ts';

const text =
  'Returns the values that several records share, the most frequent first, with the ids of these records. Empty values ' +
  'do not count. ';

const counted = (key: string): string =>
  `\`${key}\` is counted in the background: the header \`x-as-of\` says when, at most 15 minutes ago. Until the first ` +
  'count is there, the response is 503 with `Retry-After`. Other values are as of now.';

const kinds = [
  {
    path: '/contacts',
    title: 'Contact',
    plural: 'contacts',
    body: ContactDuplicates,
    inBackground: 'name_and_company',
  },
  { path: '/company', title: 'Company', plural: 'companies', body: CompanyDuplicates, inBackground: 'external_name' },
] as const;

const duplicates: FastifyPluginAsyncTypebox = async (app) => {
  for (const { path, title, plural, body, inBackground } of kinds)
    app.post(
      `${path}/duplicates`,
      {
        config: { access: { scope: `${plural}:read` }, limit: 'bulk', isCounted: true },
        schema: {
          operationId: `list${title}Duplicates`,
          summary: `Find duplicate ${plural}`,
          description: text + counted(inBackground),
          tags: [plural],
          body,
          response: { 200: Type.Array(DuplicateGroup) },
        },
      },
      async (request, reply) => answer(request, reply, request.body),
    );
};

async function answer(
  { db, caller: { customerId } }: FastifyRequest,
  reply: FastifyReply,
  asked: { by: DuplicateKey; paginate?: PageOrCursor },
): Promise<DuplicateGroup[]> {
  const { asOf, ...page } = await findDuplicates(db, customerId, asked);
  if (asOf !== undefined) void reply.header('x-as-of', asOf);
  return rowsOf(reply, page);
}

export default duplicates;
