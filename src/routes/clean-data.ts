import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { findDuplicates } from '../queries/crm/duplicates.ts';
import { CompanyDuplicates, CompanyMerge, ContactDuplicates, ContactMerge } from '../schemas/clean-data.ts';
import { DuplicateGroup, maxMovedRecords, Merged } from '../schemas/clean-data.ts';
import { rowsOf } from '../plugins/record-routes.ts';
import { mergeCompanies, mergeContacts } from '../queries/crm/record-merges.ts';
import { routesOf } from '../schemas/scopes.ts';
import { doneWith, ErrorBody } from '../schemas/wire.ts';

const resources = [
  {
    path: '/contacts',
    title: 'Contact',
    noun: 'contact',
    plural: 'contacts',
    asked: ContactDuplicates,
    inBackground: 'name_and_company',
    body: ContactMerge,
    merge: mergeContacts,
    united:
      '`custom_fields` merges key by key; `fields` can name `custom_fields.<key>`. Other e-mail addresses are kept in `other_emails`, and phone numbers are united; more ' +
      'than 20 of either is 409, unless `fields` chooses a record for it. The verification is that of the kept address. ',
    moved: 'It joins the lists to which they were added by hand, and replaces them in opportunities and activities. ',
  },
  {
    path: '/company',
    title: 'Company',
    noun: 'company',
    plural: 'companies',
    asked: CompanyDuplicates,
    inBackground: 'external_name',
    body: CompanyMerge,
    merge: mergeCompanies,
    united: '`custom_fields` merges key by key; `fields` can name `custom_fields.<key>`. ',
    moved: 'It gets their contacts, opportunities and activities. ',
  },
] as const;

const cleanData: FastifyPluginAsyncTypebox = async (app) => {
  for (const { path, title, noun, plural, asked, inBackground, body, merge, united, moved } of resources) {
    const about = routesOf(plural);
    app.post(
      `${path}/duplicates`,
      about(
        `list${title}Duplicates`,
        `Find duplicate ${plural}`,
        'Returns the values that several records share, the most frequent first, with the ids of these records. Empty values ' +
          `do not count. \`${inBackground}\` is counted in the background: the header \`x-as-of\` says when, at most 15 minutes ago. Until the first ` +
          'count is there, the response is 503 with `Retry-After`. Other values are as of now.',
        { body: asked, response: { 200: Type.Array(DuplicateGroup) } },
        { access: { scope: `${plural}:read` }, limit: 'bulk', isCounted: true },
      ),
      async (request, reply) => {
        const { asOf, ...page } = await findDuplicates(request.db, request.caller.customerId, request.body);
        if (asOf !== undefined) void reply.header('x-as-of', asOf);
        return rowsOf(reply, page);
      },
    );

    app.post(
      `${path}/merge`,
      about(
        `merge${title}`,
        `Merge ${plural}`,
        `Makes one ${noun} of several. The ${noun} \`id\` stays with all its values that are not empty; an empty one is ` +
          `filled from \`merge_ids\`, in this order. \`fields\` chooses another record for single fields. ${united}${moved}The ` +
          'merged records are deleted. For 400 days their `external_id` finds the record that stays, in batches and ' +
          `imports. If more than ${maxMovedRecords.toLocaleString('en')} records would move, the response is 409: keep the ` +
          `larger ${noun} instead. All of it happens, or nothing.`,
        { body, response: { 200: Merged, 404: ErrorBody } },
        {
          access: { allScopes: [`${plural}:update`, `${plural}:delete`] },
          limit: 'bulk',
          idempotent: true,
          mayNeedApproval: true,
          isChange: true,
        },
      ),
      async (request, reply) =>
        app.once(
          request,
          reply,
          async (sql) => {
            await merge(sql, request.caller.customerId, request.body);
            const { id, merge_ids: merged } = request.body;
            return doneWith(`${plural[0]!.toUpperCase()}${plural.slice(1)} merged`, { id, merged });
          },
          { size: () => ({ records: request.body.merge_ids.length + 1 }) },
        ),
    );
  }
};

export default cleanData;
