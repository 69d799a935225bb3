import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
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
import { Metadata, Nullable } from '../schemas/base/wire.ts';
import { recordRoutes } from '../plugins/record-routes.ts';

const tags = ['companies'];

const companies: FastifyPluginAsyncTypebox = async (app) => {
  const one = recordRoutes(app, {
    path: '/company',
    tags,
    scope: 'companies',
    operation: 'Company',
    title: 'a company',
    noun: 'company',
  });

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
      return sendExport(request, reply, exportCompanies(db, caller.customerId, body), body);
    },
  );

  one.create(CompanyCreate, createCompany, {
    description:
      'Creates a company. Several companies may have the same name. An `external_id` that another company has ' +
      'is 409; nothing is created then.',
  });

  // An unknown company is answered with 200 `null` instead of 404: the contract requires it, for this resource only.
  one.read(Nullable(Company), findCompanies, {
    description:
      'Returns one company, with its version in the header `etag`. Unlike other resources, an unknown id is not ' +
      '404: the response is 200 with `null`.',
    nullForUnknown: true,
  });

  one.update(CompanyPatch, updateCompany, {
    description:
      'Changes the fields that are sent; others stay. `null` clears a field that can be null; `custom_fields` ' +
      'is merged key by key. A new name or industry shows in the contacts of the company at once. With ' +
      '`If-Match` the company is changed only if it still has that version (else 412).',
    errors: [409],
  });

  one.remove(deleteCompany, {
    description:
      'Deletes a company for good. Its contacts and opportunities stay, without a company. With `If-Match` it ' +
      'is deleted only if it still has that version (else 412).',
  });
};

export default companies;
