import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { notFound } from '../errors.ts';
import { etagOf } from '../etag.ts';
import { sendExport } from '../plugins/send-export.ts';
import {
  updateContact,
  countContacts,
  createContact,
  deleteContact,
  exportContacts,
  findContacts,
  listContacts,
} from '../queries/contacts.ts';
import {
  Contact,
  ContactCount,
  ContactCreate,
  ContactDetail,
  ContactPatch,
  ContactQuery,
} from '../schemas/contacts.ts';
import { contactFileFields, ContactExport, ExportedFile } from '../schemas/files.ts';
import { done, DoneWithId, ErrorBody, IdParams, Metadata } from '../schemas/wire.ts';

const tags = ['contacts'];

/** Routes for the contacts of a customer. */
const contacts: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/contacts/list',
    {
      config: { access: { scope: 'contacts:read' } },
      schema: { summary: 'List contacts', tags, body: ContactQuery, response: { 200: Type.Array(Contact) } },
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
      schema: { summary: 'Count contacts', tags, body: ContactCount, response: { 200: Metadata } },
    },
    async ({ db, caller, body }) => countContacts(db, caller.customerId, body),
  );

  app.post(
    '/contacts/export',
    {
      config: { access: { scope: 'contacts:read' }, limit: 'bulk', concurrent: 'exports', isLong: true },
      schema: { summary: 'Export contacts', tags, body: ContactExport, response: { 200: ExportedFile } },
    },
    async (request, reply) => {
      const { db, caller, body } = request;
      const read = () => exportContacts(db, caller.customerId, body);
      return sendExport(request, reply, { fields: contactFileFields, name: 'contacts', read });
    },
  );

  app.post(
    '/contacts',
    {
      config: { access: { scope: 'contacts:create' }, idempotent: true },
      schema: { summary: 'Create a contact', tags, body: ContactCreate, response: { 201: DoneWithId, 404: ErrorBody } },
    },
    async (request, reply) =>
      app.once(request, reply, async (sql) => {
        const id = await createContact(sql, request.caller.customerId, request.body);
        return { status: 201, body: done('Contact created', id) };
      }),
  );

  app.get(
    '/contacts/:id',
    {
      config: { access: { scope: 'contacts:read' }, etag: true, record: findContacts },
      schema: { summary: 'Read a contact', tags, params: IdParams, response: { 200: ContactDetail } },
    },
    async (request, reply) => {
      const contact = await request.record(findContacts);
      if (!contact) throw notFound('contact');
      return reply.header('etag', etagOf(contact)).send(contact);
    },
  );

  app.patch(
    '/contacts/:id',
    {
      config: { access: { scope: 'contacts:update' } },
      schema: {
        summary: 'Update a contact',
        tags,
        params: IdParams,
        body: ContactPatch,
        response: { 200: DoneWithId, 409: ErrorBody, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, body, headers }) => {
      await db.transaction((sql) => updateContact(sql, caller.customerId, params.id, body, headers['if-match']));
      return done('Contact updated', params.id);
    },
  );

  app.delete(
    '/contacts/:id',
    {
      config: { access: { scope: 'contacts:delete' } },
      schema: { summary: 'Delete a contact', tags, params: IdParams, response: { 200: DoneWithId, 412: ErrorBody } },
    },
    async ({ db, caller, params, headers }) => {
      await db.transaction((sql) => deleteContact(sql, caller.customerId, params.id, headers['if-match']));
      return done('Contact deleted', params.id);
    },
  );
};

export default contacts;
