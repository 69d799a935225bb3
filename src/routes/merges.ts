import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Transaction } from '../database/db.ts';
import { mergeCompanies } from '../queries/crm/merges/company-merges.ts';
import { mergeContacts } from '../queries/crm/merges/contact-merges.ts';
import type { Access } from '../schemas/base/scopes.ts';
import { ErrorBody } from '../schemas/base/wire.ts';
import { CompanyMerge, ContactMerge, Merged, maxMovedRecords, type Merge } from '../schemas/clean-data/merges.ts';

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
    moved: 'It joins the lists to which they were added by hand, and replaces them in opportunities. ',
  },
  {
    path: '/company/merge',
    noun: 'company',
    tag: 'companies',
    access: { allScopes: ['companies:update', 'companies:delete'] },
    body: CompanyMerge,
    merge: mergeCompanies,
    united: '`custom_fields` merges key by key; `fields` can name `custom_fields.<key>`. ',
    moved: 'It gets their contacts and opportunities. ',
  },
];

const merges: FastifyPluginAsyncTypebox = async (app) => {
  for (const { path, noun, tag, access, body, merge, united, moved } of resources)
    app.post(
      path,
      {
        config: { access, limit: 'bulk', idempotent: true },
        schema: {
          operationId: `merge${body.title!.replace('Merge', '')}`,
          summary: `Merge ${tag}`,
          description:
            `Makes one ${noun} of several. The ${noun} \`id\` stays with all its values that are not empty; an empty one is ` +
            `filled from \`merge_ids\`, in this order. \`fields\` chooses another record for single fields. ${united}${moved}The ` +
            'merged records are deleted. For 400 days their `external_id` finds the record that stays, in batches and ' +
            `imports. If more than ${maxMovedRecords.toLocaleString('en')} records would move, the response is 409: keep the ` +
            `larger ${noun} instead. All of it happens, or nothing.`,
          tags: [tag],
          body,
          response: { 200: Merged, 404: ErrorBody },
        },
      },
      async (request, reply) =>
        app.once(request, reply, async (sql) => {
          await merge(sql, request.caller.customerId, request.body);
          const { id, merge_ids: merged } = request.body;
          return { success: true, message: `${tag[0]!.toUpperCase()}${tag.slice(1)} merged`, data: { id, merged } };
        }),
    );
};

export default merges;
