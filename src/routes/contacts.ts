import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { sendExport } from '../plugins/answers/send-export.ts';
import {
  updateContact,
  countContacts,
  createContact,
  deleteContact,
  exportContacts,
  findContacts,
  listContacts,
} from '../queries/crm/contacts.ts';
import {
  Contact,
  ContactCount,
  ContactCreate,
  ContactDetail,
  ContactPatch,
  ContactQuery,
} from '../schemas/contacts.ts';
import { ContactExport, ExportedFile } from '../schemas/files.ts';
import { Metadata } from '../schemas/base/wire.ts';
import { recordRoutes } from '../plugins/record-routes.ts';

const tags = ['contacts'];

const contacts: FastifyPluginAsyncTypebox = async (app) => {
  const one = recordRoutes(app, {
    path: '/contacts',
    tags,
    scope: 'contacts',
    operation: 'Contact',
    title: 'a contact',
    noun: 'contact',
  });

  app.post(
    '/contacts/list',
    {
      config: { access: { scope: 'contacts:read' } },
      schema: {
        operationId: 'listContacts',
        summary: 'List contacts',
        description:
          'Returns one page of the contacts that match `filters`, newest first unless `order_by` says otherwise. ' +
          'Without `filters` every contact matches. A full page has the header `x-next-cursor`; send its value as ' +
          '`paginate.cursor` for the next page.',
        tags,
        body: ContactQuery,
        response: { 200: Type.Array(Contact) },
      },
    },
    async ({ db, caller, body }, reply) => {
      const page = await listContacts(db, caller.customerId, body);
      if (page.nextCursor) void reply.header('x-next-cursor', page.nextCursor);
      return page.rows;
    },
  );

  app.post(
    '/contacts/metadata',
    {
      config: { access: { scope: 'contacts:read' } },
      schema: {
        operationId: 'countContacts',
        summary: 'Count contacts',
        description:
          'Returns how many contacts match, and how many pages they fill. Takes the same body as the list, so the ' +
          'same filters count exactly what the pages hold. A cursor is 400.',
        tags,
        body: ContactCount,
        response: { 200: Metadata },
      },
    },
    async ({ db, caller, body }) => countContacts(db, caller.customerId, body),
  );

  app.post(
    '/contacts/export',
    {
      config: { access: { scope: 'contacts:read' }, limit: 'bulk', concurrent: 'exports', isLong: true },
      schema: {
        operationId: 'exportContacts',
        summary: 'Export contacts',
        description:
          'Returns every contact that the list would page through, in the same order, as one file. The file is sent ' +
          'while it is read: if the connection breaks off, it is incomplete. Each customer can have two exports ' +
          'running at a time; one more is 429.',
        tags,
        body: ContactExport,
        response: { 200: ExportedFile },
      },
    },
    async (request, reply) => {
      const { db, caller, body } = request;
      return sendExport(request, reply, exportContacts(db, caller.customerId, body), body);
    },
  );

  one.create(ContactCreate, createContact, {
    description:
      'Creates a contact. Several contacts may have the same e-mail address. `company` finds or creates the ' +
      'company; `list_ids` adds the contact to lists. An unknown id in the body is 404, an `external_id` that ' +
      'another contact has is 409; nothing is created then.',
    errors: [404],
  });

  one.read(ContactDetail, findContacts, {
    description:
      'Returns one contact with the lists to which it was added by hand. The header `etag` holds its version. ' +
      'An id of another customer is 404, like an unknown one. For 400 days after a merge, the 404 of a merged contact ' +
      'has `merged_into`, the id of the contact that replaces it.',
    mayBeMerged: true,
  });

  one.update(ContactPatch, updateContact, {
    description:
      'Changes the fields that are sent; others stay. `null` clears a field that can be null. `custom_fields` ' +
      'is merged key by key; `list_ids` replaces the lists that the contact was added to by hand. With ' +
      '`If-Match` the contact is changed only if it still has that version (else 412).',
    errors: [409],
  });

  one.remove(deleteContact, {
    description:
      'Deletes a contact for good, and takes it out of lists and opportunities. With `If-Match` it is deleted ' +
      'only if it still has that version (else 412).',
  });
};

export default contacts;
