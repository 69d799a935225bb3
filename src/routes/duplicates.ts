import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { unavailable } from '../errors.ts';
import { askForCount, listCountedDuplicates, type CountedKey } from '../queries/crm/duplicate-counts.ts';
import { listDuplicates } from '../queries/crm/duplicates.ts';
import {
  CompanyDuplicates,
  ContactDuplicates,
  DuplicateGroup,
  type DuplicateKey,
} from '../schemas/clean-data/duplicates.ts';
import type { Paginate } from '../schemas/base/wire.ts';

const text =
  'Returns the values that several records share, the most frequent first, with the ids of these records. Empty values ' +
  'do not count. ';

const counted = (key: string): string =>
  `\`${key}\` is counted in the background: the header \`x-as-of\` says when, at most 15 minutes ago. Until the first ` +
  'count is there, the response is 503 with `Retry-After`. Other values are as of now.';

const duplicates: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/contacts/duplicates',
    {
      config: { access: { scope: 'contacts:read' }, limit: 'bulk', isCounted: true },
      schema: {
        operationId: 'listContactDuplicates',
        summary: 'Find duplicate contacts',
        description: text + counted('name_and_company'),
        tags: ['contacts'],
        body: ContactDuplicates,
        response: { 200: Type.Array(DuplicateGroup) },
      },
    },
    async (request, reply) => answer(request, reply, request.body),
  );

  app.post(
    '/company/duplicates',
    {
      config: { access: { scope: 'companies:read' }, limit: 'bulk', isCounted: true },
      schema: {
        operationId: 'listCompanyDuplicates',
        summary: 'Find duplicate companies',
        description: text + counted('external_name'),
        tags: ['companies'],
        body: CompanyDuplicates,
        response: { 200: Type.Array(DuplicateGroup) },
      },
    },
    async (request, reply) => answer(request, reply, request.body),
  );
};

/** Seconds until a caller should ask again for a count that is not there yet. */
const retrySeconds = 5;

const isCounted = (key: DuplicateKey): key is CountedKey => key === 'name_and_company' || key === 'external_name';

async function answer(
  { db, caller: { customerId } }: FastifyRequest,
  reply: FastifyReply,
  { by, paginate }: { by: DuplicateKey; paginate?: Paginate },
): Promise<DuplicateGroup[]> {
  if (!isCounted(by)) return db.search((sql) => listDuplicates(sql, customerId, by, paginate));
  const asOf = await db.transaction((sql) => askForCount(sql, customerId, by));
  if (asOf === undefined) throw unavailable('These duplicates are being counted', retrySeconds);
  void reply.header('x-as-of', asOf);
  return db.search((sql) => listCountedDuplicates(sql, customerId, by, paginate));
}

export default duplicates;
