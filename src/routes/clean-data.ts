import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { findDuplicates } from '../queries/crm/duplicates.ts';
import {
  CompanyDuplicates,
  ContactDuplicates,
  DuplicateGroup,
  CompanyMerge,
  ContactMerge,
  Merged,
  maxMovedRecords,
} from '../schemas/clean-data.ts';
import type { DuplicateKey, Merge } from '../schemas/clean-data.ts';
import { rowsOf } from '../plugins/record-routes.ts';
import type { PageOrCursor } from '../queries/records/finders.ts';
import type { Transaction } from '../database/db.ts';
import { mergeCompanies, mergeContacts } from '../queries/crm/record-merges.ts';
import { type Access, routesOf } from '../schemas/scopes.ts';
import { ErrorBody } from '../schemas/wire.ts';

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

const cleanData: FastifyPluginAsyncTypebox = async (app) => {
  addMerges(app);
  for (const { path, title, plural, body, inBackground } of kinds)
    app.post(
      `${path}/duplicates`,
      routesOf(plural)(
        `list${title}Duplicates`,
        `Find duplicate ${plural}`,
        text + counted(inBackground),
        { body, response: { 200: Type.Array(DuplicateGroup) } },
        { access: { scope: `${plural}:read` }, limit: 'bulk', isCounted: true },
      ),
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

export default cleanData;

interface Resource {
  path: string;
  noun: string;
  tag: string;
  access: Access;
  body: typeof ContactMerge;
  merge: (sql: Transaction, customerId: string, merge: Merge) => Promise<void>;
  united: string;
  moved: string;
}

const resources: Resource[] = [
  {
    path: '/contacts/merge',
    noun: 'contact',
    tag: 'contacts',
    access: { allScopes: ['contacts:update', 'contacts:delete'] },
    body: ContactMerge,
    merge: mergeContacts,
    united:
      '`custom_fields` merges key by key; `fields` can name `custom_fields.<key>`. Other e-mail addresses are kept in `other_emails`, and phone numbers are united; more ' +
      'than 20 of either is 409, unless `fields` chooses a record for it. The verification is that of the kept address. ',
    moved: 'It joins the lists to which they were added by hand, and replaces them in opportunities and activities. ',
  },
  {
    path: '/company/merge',
    noun: 'company',
    tag: 'companies',
    access: { allScopes: ['companies:update', 'companies:delete'] },
    body: CompanyMerge,
    merge: mergeCompanies,
    united: '`custom_fields` merges key by key; `fields` can name `custom_fields.<key>`. ',
    moved: 'It gets their contacts, opportunities and activities. ',
  },
];

function addMerges(app: Parameters<FastifyPluginAsyncTypebox>[0]): void {
  for (const { path, noun, tag, access, body, merge, united, moved } of resources)
    app.post(
      path,
      routesOf(tag)(
        `merge${body.title!.replace('Merge', '')}`,
        `Merge ${tag}`,
        `Makes one ${noun} of several. The ${noun} \`id\` stays with all its values that are not empty; an empty one is ` +
          `filled from \`merge_ids\`, in this order. \`fields\` chooses another record for single fields. ${united}${moved}The ` +
          'merged records are deleted. For 400 days their `external_id` finds the record that stays, in batches and ' +
          `imports. If more than ${maxMovedRecords.toLocaleString('en')} records would move, the response is 409: keep the ` +
          `larger ${noun} instead. All of it happens, or nothing.`,
        { body, response: { 200: Merged, 404: ErrorBody } },
        { access, limit: 'bulk', idempotent: true, mayNeedApproval: true },
      ),
      async (request, reply) =>
        app.once(
          request,
          reply,
          async (sql) => {
            await merge(sql, request.caller.customerId, request.body);
            const { id, merge_ids: merged } = request.body;
            return { success: true, message: `${tag[0]!.toUpperCase()}${tag.slice(1)} merged`, data: { id, merged } };
          },
          { size: () => ({ records: request.body.merge_ids.length + 1 }) },
        ),
    );
}
