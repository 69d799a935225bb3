import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { etagOf } from '../text/etag.ts';
import { sendExport } from '../plugins/answers/send-export.ts';
import {
  updateCompany,
  countCompanies,
  createCompany,
  deleteCompany,
  exportCompanies,
  findCompanies,
  listCompanies,
} from '../queries/crm/companies.ts';
import { Company, CompanyCount, CompanyCreate, CompanyPatch, CompanyQuery } from '../schemas/companies.ts';
import { CompanyExport, ExportedFile } from '../schemas/files.ts';
import { done, DoneWithId, ErrorBody, IdParams, Metadata, Nullable } from '../schemas/base/wire.ts';

const tags = ['companies'];

const companies: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/company/list',
    {
      config: { access: { scope: 'companies:read' } },
      schema: {
        operationId: 'listCompanies',
        summary: 'List companies',
        description:
          'Returns one page of the companies that match `filters`, newest first unless `order_by` says otherwise. ' +
          'Without `filters` every company matches. A full page has the header `x-next-cursor`; send its value as ' +
          '`paginate.cursor` for the next page.',
        tags,
        body: CompanyQuery,
        response: { 200: Type.Array(Company) },
      },
    },
    async ({ db, caller, body }, reply) => {
      const page = await listCompanies(db, caller.customerId, body);
      if (page.nextCursor) void reply.header('x-next-cursor', page.nextCursor);
      return page.rows;
    },
  );

  app.post(
    '/company/metadata',
    {
      config: { access: { scope: 'companies:read' } },
      schema: {
        operationId: 'countCompanies',
        summary: 'Count companies',
        description:
          'Returns how many companies match, and how many pages they fill. Takes the same body as the list, so the ' +
          'same filters count exactly what the pages hold. A cursor is 400.',
        tags,
        body: CompanyCount,
        response: { 200: Metadata },
      },
    },
    async ({ db, caller, body }) => countCompanies(db, caller.customerId, body),
  );

  app.post(
    '/company/export',
    {
      config: { access: { scope: 'companies:read' }, limit: 'bulk', concurrent: 'exports', isLong: true },
      schema: {
        operationId: 'exportCompanies',
        summary: 'Export companies',
        description:
          'Returns every company that the list would page through, in the same order, as one file. The file is sent ' +
          'while it is read: if the connection breaks off, it is incomplete. Each customer can have two exports ' +
          'running at a time; one more is 429.',
        tags,
        body: CompanyExport,
        response: { 200: ExportedFile },
      },
    },
    async (request, reply) => {
      const { db, caller, body } = request;
      return sendExport(request, reply, exportCompanies(db, caller.customerId, body));
    },
  );

  app.post(
    '/company',
    {
      config: { access: { scope: 'companies:create' }, idempotent: true },
      schema: {
        operationId: 'createCompany',
        summary: 'Create a company',
        description:
          'Creates a company. Several companies may have the same name. An `external_id` that another company has ' +
          'is 409; nothing is created then.',
        tags,
        body: CompanyCreate,
        response: { 201: DoneWithId },
      },
    },
    async (request, reply) =>
      app.once(request, reply, async (sql) => {
        const id = await createCompany(sql, request.caller.customerId, request.body);
        return { status: 201, body: done('Company created', id) };
      }),
  );

  // An unknown company is answered with 200 `null` instead of 404: the contract requires it, for this resource only.
  app.get(
    '/company/:id',
    {
      config: { access: { scope: 'companies:read' }, etag: true, nullForUnknown: true, record: findCompanies },
      schema: {
        operationId: 'getCompany',
        summary: 'Read a company',
        description:
          'Returns one company, with its version in the header `etag`. Unlike other resources, an unknown id is not ' +
          '404: the response is 200 with `null`.',
        tags,
        params: IdParams,
        response: { 200: Nullable(Company) },
      },
    },
    async (request, reply) => {
      const company = (await request.record(findCompanies)) ?? null;
      if (company) void reply.header('etag', etagOf(company));
      return reply.send(company);
    },
  );

  app.patch(
    '/company/:id',
    {
      config: { access: { scope: 'companies:update' } },
      schema: {
        operationId: 'updateCompany',
        summary: 'Update a company',
        description:
          'Changes the fields that are sent; others stay. `null` clears a field that can be null; `custom_fields` ' +
          'is merged key by key. A new name or industry shows in the contacts of the company at once. With ' +
          '`If-Match` the company is changed only if it still has that version (else 412).',
        tags,
        params: IdParams,
        body: CompanyPatch,
        response: { 200: DoneWithId, 409: ErrorBody, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, body, headers }) => {
      await db.transaction((sql) => updateCompany(sql, caller.customerId, params.id, body, headers['if-match']));
      return done('Company updated', params.id);
    },
  );

  app.delete(
    '/company/:id',
    {
      config: { access: { scope: 'companies:delete' } },
      schema: {
        operationId: 'deleteCompany',
        summary: 'Delete a company',
        description:
          'Deletes a company for good. Its contacts and opportunities stay, without a company. With `If-Match` it ' +
          'is deleted only if it still has that version (else 412).',
        tags,
        params: IdParams,
        response: { 200: DoneWithId, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, headers }) => {
      await db.transaction((sql) => deleteCompany(sql, caller.customerId, params.id, headers['if-match']));
      return done('Company deleted', params.id);
    },
  );
};

export default companies;
