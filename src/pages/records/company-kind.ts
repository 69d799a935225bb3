import { writeCompanyBatch } from '../../queries/crm/company-batches.ts';
import {
  countCompaniesUpTo,
  createCompany,
  exportCompanies,
  findCompanies,
  listCompanies,
  updateCompany,
} from '../../queries/crm/companies.ts';
import { deleteCompany } from '../../queries/crm/deletions.ts';
import { countContacts, listContacts } from '../../queries/crm/contacts.ts';
import { countOpportunities } from '../../queries/sales/opportunities.ts';
import { companyBatches } from '../../schemas/batches.ts';
import { CompanyCreate, CompanyFilters, CompanyPatch, companyTable, type Company } from '../../schemas/companies.ts';
import { counted, html } from '../base/html.ts';
import { countryName } from '../base/values.ts';
import { peopleOfCompanies } from '../prospects/prospect-address.ts';
import { nameOfContact } from './contact-kind.ts';
import { opportunitiesOf } from './opportunity-rows.ts';
import { formFieldsOf, timeColumns, verificationFacts, type RecordKind } from './record-kind.ts';

const path = '/app/companies';

/** Companies, for the pages that treat contacts and companies the same way. */
export const companyKind: RecordKind<Company> = {
  object: 'companies',
  path,
  noun: 'company',
  title: 'Companies',
  picture: 'company',
  advice: 'Companies come with the contacts that work for them. Import a file, or create one.',
  controls: [
    { name: 'search', label: 'Search', control: 'search', field: 'search' },
    { name: 'industry', label: 'Industry', control: 'text', field: 'industry', isPart: true },
    { name: 'type', label: 'Type', control: 'text', field: 'type', isPart: true },
    { name: 'country', label: 'Country', control: 'country', field: 'location_country' },
    { name: 'status', label: 'Status', control: 'status', field: 'verification_status' },
    { name: 'since', label: 'Created since', control: 'since', field: 'created_at' },
  ],
  columns: [
    { name: 'name', head: 'Name', cell: ({ company_name }) => html`${company_name}`, sort: 'company_name' },
    { name: 'industry', head: 'Industry', cell: ({ industry }) => html`${industry}` },
    { name: 'type', head: 'Type', cell: ({ type }) => html`${type}` },
    { name: 'size', head: 'Size', cell: ({ size }) => html`${size}` },
    { name: 'city', head: 'City', cell: ({ location_locality }) => html`${location_locality ?? ''}` },
    { name: 'country', head: 'Country', cell: ({ location_country }) => html`${countryName(location_country)}` },
    { name: 'score', head: 'Score', cell: ({ score }) => html`${score}`, sort: 'score', isOptional: true },
    ...timeColumns,
  ],
  nameOf: ({ company_name }) => company_name,
  fields: formFieldsOf(companyTable),
  facts: (row) => verificationFacts('companies', row),
  blank: { type: '', company_name: '' },
  needs: [],
  schemas: { create: CompanyCreate, patch: CompanyPatch, filters: CompanyFilters },
  batches: companyBatches,
  list: listCompanies,
  countUpTo: countCompaniesUpTo,
  find: findCompanies,
  create: createCompany,
  update: updateCompany,
  remove: deleteCompany,
  write: writeCompanyBatch,
  exported: exportCompanies,
  links: () => ({}),
  head: ['type', 'industry', 'size', 'location_locality', 'location_country'],
  workplace: ({ id }) => ({ filters: { company_or_its_contacts: id }, about: { company_id: id } }),
  related: async (request, _reply, { id, company_name }) => {
    const { db, caller } = request;
    const filters = { company_id: id };
    const [people, all, deals] = await Promise.all([
      listContacts(db, caller.customerId, { filters, paginate: { limit: 10 } }),
      countContacts(db, caller.customerId, { filters }),
      opportunitiesOf(request, { company: id }),
    ]);
    const total = all.pagination.total_records;
    return html`<section class="card">
        <h2>Contacts</h2>
        !${people.rows.length === 0 ? html`<p class="quiet">Nobody here works for this company.</p>` : ''}
        <ul class="plain">
          !${people.rows.map(
            (row) =>
              html`<li>
                <a href="/app/contacts/${row.id}">${nameOfContact(row)}</a> <span class="quiet">${row.job_title}</span>
              </li>`,
          )}
        </ul>
        !${people.rows.length < total ? html`<p><a href="/app/contacts?of=${id}">Show all ${counted(total, 'contact')}</a></p>` : ''}
        <p><a href="${peopleOfCompanies([company_name])}">Find more people of this company in the catalog</a></p>
      </section>
      !${deals}`;
  },
  detaches: async (db, customerId, { id }) => {
    const [people, deals] = await Promise.all([
      countContacts(db, customerId, { filters: { company_id: id } }),
      db.search((sql) => countOpportunities(sql, customerId, { company_id: id })),
    ]);
    const contacts = counted(people.pagination.total_records, 'contact');
    return `${contacts} and ${counted(deals, 'opportunity', 'opportunities')} stay, without a company.`;
  },
};
