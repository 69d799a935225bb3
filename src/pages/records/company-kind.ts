import { writeCompanyBatch } from '../../queries/crm/company-batches.ts';
import {
  countCompaniesUpTo,
  createCompany,
  deleteCompany,
  exportCompanies,
  findCompanies,
  listCompanies,
  updateCompany,
} from '../../queries/crm/companies.ts';
import { countContacts, listContacts } from '../../queries/crm/contacts.ts';
import { countOpportunities } from '../../queries/sales/opportunities.ts';
import { companyBatches } from '../../schemas/batches.ts';
import { CompanyCreate, CompanyPatch, type Company } from '../../schemas/companies.ts';
import { counted, html, moment, table } from '../base/html.ts';
import { countryName, mailLink, verification } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';
import { peopleOfCompanies } from '../prospects/prospect-address.ts';
import { nameOfContact } from './contact-kind.ts';
import { opportunitiesOf } from './opportunity-rows.ts';
import { fieldsUnder, verificationFacts, type FormField, type RecordKind } from './record-kind.ts';

const path = '/app/companies';

const company = fieldsUnder('companies', 'Company');
const place = fieldsUnder('companies', 'Place');
const profiles = fieldsUnder('companies', 'Profiles and more');

const fields: readonly FormField[] = [
  company('company_name'),
  company('type', 'text', 'What it is to you, such as customer or partner.'),
  company('industry'),
  company('size', 'text', 'Number of employees, such as 11-50.'),
  place('location_street_address'),
  place('location_address_line_2'),
  place('location_postal_code'),
  place('location_locality'),
  place('location_metro'),
  place('location_region'),
  place('location_country', 'country'),
  profiles('profnet_url', 'url'),
  profiles('social1_url', 'url'),
  profiles('social2_url', 'url'),
  profiles('external_id', 'text', 'The id of the company in another system of yours.'),
];

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
  ],
  sorts: [
    ['company_name', 'name'],
    ['-score', 'highest score first'],
    ['-updated_at', 'changed last'],
    ['created_at', 'oldest first'],
  ],
  columns: [
    { head: 'Name', cell: ({ company_name }) => html`${company_name}` },
    { head: 'Industry', cell: ({ industry }) => html`${industry}` },
    { head: 'Type', cell: ({ type }) => html`${type}` },
    { head: 'Size', cell: ({ size }) => html`${size}` },
    { head: 'City', cell: ({ location_locality }) => html`${location_locality ?? ''}` },
    { head: 'Country', cell: ({ location_country }) => html`${countryName(location_country)}` },
    { head: 'Last changed', cell: ({ updated_at }) => moment(updated_at) },
  ],
  nameOf: ({ company_name }) => company_name,
  fields,
  facts: (row) => verificationFacts('companies', row),
  blank: { type: '', company_name: '' },
  needs: [],
  schemas: { create: CompanyCreate, patch: CompanyPatch },
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
  related: async (request, _reply, { id, company_name }) => {
    const { db, caller } = request;
    const filters = { company_id: id };
    const [people, all, deals] = await Promise.all([
      listContacts(db, caller.customerId, { filters, paginate: { limit: 10 } }),
      countContacts(db, caller.customerId, { filters }),
      opportunitiesOf(request, { company: id }),
    ]);
    const rows = people.rows.map(
      (row) =>
        html`<tr>
          <td><a href="/app/contacts/${row.id}">${nameOfContact(row)}</a></td>
          <td>${row.job_title}</td>
          <td>!${mailLink(row.work_email)}</td>
          <td>!${verification(row.verification_status)}</td>
        </tr>`,
    );
    const total = all.pagination.total_records;
    const heads = ['Name', fieldWord('contacts', 'job_title'), fieldWord('contacts', 'work_email'), 'E-mail status'];
    return html`<h2>Contacts</h2>
      !${rows.length === 0 ? html`<p class="quiet">Nobody here works for this company.</p>` : table('Contacts', heads, rows)}
      !${rows.length < total ? html`<p><a href="/app/contacts?of=${id}">Show all ${counted(total, 'contact')}</a></p>` : ''}
      <p><a href="${peopleOfCompanies([company_name])}">Find more people of this company in the catalog</a></p>
      <h2>Opportunities</h2>
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
