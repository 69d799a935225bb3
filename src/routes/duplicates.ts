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
