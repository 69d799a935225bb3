import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { etagOf } from '../etag.ts';
import { enqueueSettling } from '../jobs/enqueue-turn.ts';
import { sendExport } from '../plugins/send-export.ts';
import {
  updateCompany,
  countCompanies,
  createCompany,
  deleteCompany,
  exportCompanies,
  findCompanies,
  listCompanies,
} from '../queries/companies.ts';
import { Company, CompanyCount, CompanyCreate, CompanyPatch, CompanyQuery } from '../schemas/companies.ts';
import { companyFileFields, CompanyExport, ExportedFile } from '../schemas/files.ts';
import { done, DoneWithId, ErrorBody, IdParams, Metadata, Nullable } from '../schemas/wire.ts';

const tags = ['companies'];

/** Routes for the companies of a customer. */
const companies: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/company/list',
    {
      config: { access: { scope: 'companies:read' } },
      schema: { summary: 'List companies', tags, body: CompanyQuery, response: { 200: Type.Array(Company) } },
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
      schema: { summary: 'Count companies', tags, body: CompanyCount, response: { 200: Metadata } },
    },
    async ({ db, caller, body }) => countCompanies(db, caller.customerId, body),
  );

  app.post(
    '/company/export',
    {
      config: { access: { scope: 'companies:read' }, limit: 'bulk', concurrent: 'exports', isLong: true },
      schema: { summary: 'Export companies', tags, body: CompanyExport, response: { 200: ExportedFile } },
    },
    async (request, reply) => {
      const { db, caller, body } = request;
      const read = () => exportCompanies(db, caller.customerId, body);
      return sendExport(request, reply, { fields: companyFileFields, name: 'companies', read });
    },
  );

  app.post(
    '/company',
    {
      config: { access: { scope: 'companies:create' }, idempotent: true },
      schema: { summary: 'Create a company', tags, body: CompanyCreate, response: { 201: DoneWithId } },
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
      schema: { summary: 'Read a company', tags, params: IdParams, response: { 200: Nullable(Company) } },
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
        summary: 'Update a company',
        tags,
        params: IdParams,
        body: CompanyPatch,
        response: { 200: DoneWithId, 409: ErrorBody, 412: ErrorBody },
      },
    },
    async ({ db, caller, params, body, headers }) => {
      await db.transaction(async (sql) => {
        const isSettling = await updateCompany(sql, caller.customerId, params.id, body, headers['if-match']);
        if (isSettling) await enqueueSettling(sql, caller.customerId);
      });
      return done('Company updated', params.id);
    },
  );

  app.delete(
    '/company/:id',
    {
      config: { access: { scope: 'companies:delete' } },
      schema: { summary: 'Delete a company', tags, params: IdParams, response: { 200: DoneWithId, 412: ErrorBody } },
    },
    async ({ db, caller, params, headers }) => {
      await db.transaction(async (sql) => {
        const isSettling = await deleteCompany(sql, caller.customerId, params.id, headers['if-match']);
        if (isSettling) await enqueueSettling(sql, caller.customerId);
      });
      return done('Company deleted', params.id);
    },
  );
};

export default companies;
