import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { countCompanies, exportCompanies, findCompanies, listCompanies } from '../queries/crm/companies.ts';
import { companyWrites } from '../queries/crm/record-batches.ts';
import { Company, CompanyCount, CompanyCreate, CompanyPatch, CompanyQuery } from '../schemas/companies.ts';
import { CompanyExport } from '../schemas/files.ts';
import { Nullable } from '../schemas/wire.ts';
import { addRecordLists, recordRoutes } from '../plugins/record-routes.ts';

const companies: FastifyPluginAsyncTypebox = async (app) => {
  const kind = { path: '/company', scope: 'companies', noun: 'company' } as const;
  const one = recordRoutes(app, kind);

  addRecordLists(app, {
    ...kind,
    schemas: { list: CompanyQuery, count: CompanyCount, export: CompanyExport, shown: Company },
    list: listCompanies,
    count: countCompanies,
    export: exportCompanies,
  });

  one.create(CompanyCreate, companyWrites.create, {
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

  one.update(CompanyPatch, companyWrites.update, {
    description:
      'Changes the fields that are sent; others stay. `null` clears a field that can be null; `custom_fields` ' +
      'is merged key by key. A new name or industry shows in the contacts of the company at once. With ' +
      '`If-Match` the company is changed only if it still has that version (else 412).',
    errors: [409],
  });

  one.remove(companyWrites.remove, {
    description:
      'Deletes a company. Its contacts and opportunities stay, without a company. With `If-Match` it is deleted ' +
      'only if it still has that version (else 412). The deletion can be undone, unless `purge` is `true`.',
    mayPurge: true,
  });
};

export default companies;
