import type { TObject } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Database, Transaction } from '../../database/db.ts';
import type { ExportedRecords } from '../../files/write-records.ts';
import type { Batch, Outcome } from '../../queries/records/batches.ts';
import type { CreateRecord, DeleteRecord, FindRecords, UpdateRecord } from '../../queries/records/finders.ts';
import type { RecordPage } from '../../queries/records/finders.ts';
import type { DeferredWrites } from '../../queries/records/deferred-writes.ts';
import type { FieldTable, FormControl, DeclaredObject } from '../../schemas/wire.ts';
import type { ListRequest } from '../../filters/parse.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import type { User } from '../../schemas/accounts.ts';
import { CompanyCreate, CompanyFilters, CompanyPatch, companyTable, type Company } from '../../schemas/companies.ts';
import { pageNumberIn, queryText, search, text, ask, filledIn, idsIn, type Fields } from '../base/requests.ts';
import { pathWith, html, startOf, readDay, date, moment, when, panel, plainList, link } from '../base/html.ts';
import { count, counted, type Html, type PictureName } from '../base/html.ts';
import { fieldWord, countryName, verification, mailLink, contactPhone, plain } from '../base/words.ts';
import { listNames, type ListName } from '../../queries/crm/lists.ts';
import { canonicalId } from '../../text/ids.ts';
import { findUnstorableText } from '../../text/json.ts';
import { validationFailed } from '../../errors.ts';
import { compile } from '../../validation/validator.ts';
import { countContactsUpTo, exportContacts, findContacts, listContacts } from '../../queries/crm/contacts.ts';
import { countContacts } from '../../queries/crm/contacts.ts';
import { contactWrites, companyWrites } from '../../queries/crm/record-batches.ts';
import { findListsOfContact } from '../../queries/crm/list-members.ts';
import { countOpportunities } from '../../queries/crm/opportunities.ts';
import { contactBatches, maxBatchItems } from '../../schemas/batches.ts';
import { ContactFilters, ContactPatch, contactTable } from '../../schemas/contacts.ts';
import type { ContactCreate, ContactDetail } from '../../schemas/contacts.ts';
import { form, select, hidden } from '../base/forms.ts';
import { countCompaniesUpTo, countsOfCompanies, exportCompanies, findCompanies } from '../../queries/crm/companies.ts';
import { listCompanies, maxOfCompany, type CompanyCounts } from '../../queries/crm/companies.ts';
import { nameOf } from '../changes.ts';
import { opportunitiesOf } from './deals.ts';

export interface FormField {
  name: string;
  label: string;
  control: FormControl | 'area' | 'choice' | 'tick' | 'day' | 'link';
  group: string;
  hint: string;
  isRare?: boolean;
}

export const formFieldsOf = (table: FieldTable): FormField[] =>
  Object.entries(table).flatMap(([name, { label, form }]) =>
    form ? [{ name, label, control: 'text' as const, hint: '', ...form }] : [],
  );

/** Returns what tells a record from others of its name, such as its e-mail address and company. */
export const aboutOf = <Row extends ShownRecord>(kind: RecordKind<Row>, row: Row): string =>
  kind.about(row).filter(Boolean).join(' · ');

export interface FilterControl {
  name: string;
  label: string;
  /**
   * Kind of control. A `text` matches every value that contains it. `list`, `country`, `status` and `user` are selects,
   * and `since` asks for the first day. `hidden` only keeps ids from the address, joined by points, and `any` several
   * searches of which one must match.
   */
  control: 'search' | 'text' | 'country' | 'list' | 'status' | 'user' | 'since' | 'hidden' | 'any';
  field: string;
}

export interface RecordColumn<Row> {
  name: string;
  head: string;
  cell(row: Row, users: readonly User[]): Html;
  sort?: string;
  kind?: 'number';
  isOptional?: true;
}

/** What contacts and companies have both. */
export type ShownRecord = Pick<
  Company,
  'id' | 'custom_fields' | 'verification_status' | 'last_verified' | 'score' | 'created_at' | 'updated_at'
>;

const optional = { isOptional: true } as const;

const serviceColumns: readonly RecordColumn<ShownRecord>[] = [
  { name: 'score', head: 'Score', cell: ({ score }) => html`${score}`, sort: 'score', ...optional },
  { name: 'changed', head: 'Last changed', cell: (row) => moment(row.updated_at), sort: 'updated_at', ...optional },
  { name: 'created', head: 'Created', cell: (row) => moment(row.created_at), sort: 'created_at', ...optional },
];

const actsOfAll = { edit: 'Edit', merge: 'Merge', delete: 'Delete' };

export type References = Partial<Record<'contact_id' | 'company_id' | 'opportunity_id', string | null>>;

/**
 * Description of contacts or of companies, for pages that treat both alike. Its functions are those that the API's
 * routes call. Functions of a row are methods, so that pages can use a kind without knowing its rows.
 */
export interface RecordKind<Row extends ShownRecord = ShownRecord> {
  object: DeclaredObject;
  path: string;
  noun: string;
  title: string;
  picture: PictureName;
  advice: string;
  /** What the search looks at. */
  searched: string;
  controls: readonly FilterControl[];
  /** Columns of the list. The first one names the record. */
  columns: readonly RecordColumn<Row>[];
  /** Labels of the actions on chosen records, by name. */
  acts: Readonly<Record<string, string>>;
  /** Names of the fields that can be set in all chosen records at once. */
  setTogether: readonly string[];
  nameOf(row: Row): string;
  /** Returns texts that tell records of the same name apart. */
  about(row: Row): (string | null)[];
  /** Returns searches that find other records which may be the same one. */
  likely(row: Row): string[];
  fields: readonly FormField[];
  /** Returns the texts that the form of a new record begins with, by field name. */
  suggested?: (request: FastifyRequest) => Promise<Readonly<Record<string, string>>>;
  needsOneOf?: readonly (readonly string[])[] | undefined;
  schemas: { create: TObject; patch: object; filters: object };
  list: (db: Database, customerId: string, request: ListRequest) => Promise<RecordPage<Row>>;
  /** Adds to rows of the list what the page shows of records that refer to them. */
  withCounts?(request: FastifyRequest, rows: readonly Row[]): Promise<Row[]>;
  countUpTo: (db: Database, customerId: string, filters: GivenFilters, most: number) => Promise<number>;
  find: FindRecords<Row>;
  create: CreateRecord<never>;
  /** Returns filters that find others which may be the same one as a record that is written. */
  twins: (body: object) => GivenFilters[];
  update: UpdateRecord<never>;
  remove: DeleteRecord;
  write: (sql: Transaction, customerId: string, batch: Batch, deferred: DeferredWrites) => Promise<Outcome[]>;
  exported: (db: Database, customerId: string, request: ListRequest) => ExportedRecords;
  head: readonly string[];
  /** Returns the filters for the record's activities, and the records to which a new activity refers. */
  workplace(row: Row): { filters: GivenFilters; about: References };
  related(request: FastifyRequest, row: Row): Promise<Html>;
  detaches(request: FastifyRequest, row: Row): Promise<string>;
}

/**
 * Returns the names of the newest lists.
 * @param chosen id of a list that is always included, if it exists
 */
export const listChoices = (request: FastifyRequest, chosen = ''): Promise<ListName[]> =>
  ask(request, listNames, 100, canonicalId(chosen));

export async function readInOrder<Row extends ShownRecord>(
  request: FastifyRequest,
  { find }: Pick<RecordKind<Row>, 'find'>,
  ids: readonly string[],
): Promise<Row[]> {
  const rows = ids.length === 0 ? [] : await search(request, find, ids);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

/** State of a list of records. The page's address contains all of it, so users can share a view. */
export interface View {
  values: Readonly<Record<string, string>>;
  /** Field to sort by, with `-` in front for descending order. Empty: newest first. */
  sort: string;
  /** Names of the chosen columns. Empty: the default columns. */
  columns: readonly string[];
  page: number;
  /** Cursor of the page, if its address has one. Without it, the page is found by its number. */
  cursor: string;
  /** Ids of records that are chosen. The list shows them first. */
  ids: readonly string[];
}

type Controls = Pick<RecordKind<never>, 'controls' | 'columns' | 'schemas'>;

export const sortsOf = ({ columns }: Pick<Controls, 'columns'>): string[] =>
  columns.flatMap(({ sort }) => (sort === undefined ? [] : [sort, `-${sort}`]));

/**
 * Reads a view from the parameters of an address. Ignores unknown parameters.
 * @throws DomainError `validation_failed` if a value is not valid as a filter
 */
export function viewOf({ controls, columns, schemas }: Controls, fields: Fields): View {
  const given = Object.entries(filledIn(fields, ...controls.map(({ name }) => name)));
  const values = Object.fromEntries(given.map(([name, value]) => [name, canonicalId(value) ?? value]));
  const invalid = compile(schemas.filters).faultsOf(filtersOf(controls, { values }));
  const faults = [...findUnstorableText(values), ...invalid.map((one) => ({ ...one, path: `/filters${one.path}` }))];
  if (faults.length > 0) throw validationFailed(faults);
  const sort = sortsOf({ columns }).find((one) => one === text(fields, 'sort')) ?? '';
  const named = [fields['columns'] ?? []].flat().flatMap((names) => names.split('.'));
  // Only the list knows which fields are declared. Other pages pass their columns on.
  const isKnown = (name: string): boolean => /^custom~.{1,300}$/.test(name) || columns.some((one) => one.name === name);
  const shown = [...new Set(named.filter(isKnown))];
  const ids = idsIn(fields, 'id', maxBatchItems);
  return { values, sort, columns: shown, page: pageNumberIn(fields), cursor: text(fields, 'cursor'), ids };
}

export function filtersOf(controls: readonly FilterControl[], { values }: Pick<View, 'values'>): GivenFilters {
  const given = controls.flatMap(({ name, field, control }): [string, unknown][] => {
    const value = values[name];
    if (value === undefined) return [];
    if (control === 'since') return [[field, { gte: startOf(readDay(value) ?? value) }]];
    if (control === 'hidden') return [[field, value.split('.')]];
    if (control === 'any') return [[field, value.split(';', 10).map((one) => ({ search: one }))]];
    return [[field, control === 'text' ? { contains: value } : value]];
  });
  return Object.fromEntries(given) as GivenFilters;
}

export function requestOf({ controls }: Controls, view: View, limit: number): ListRequest {
  const { sort, page, cursor } = view;
  const order = sort.startsWith('-') ? { [sort.slice(1)]: 'DESC' } : { [sort]: 'ASC' };
  return {
    filters: filtersOf(controls, view),
    ...(sort === '' ? {} : { order_by: order }),
    paginate: { limit, ...(cursor === '' ? { page } : { cursor }) },
  };
}

type Selection = Pick<View, 'values' | 'sort' | 'columns'>;

export function parametersOf({ values, sort, columns }: Selection, more: Record<string, string> = {}) {
  const chosen = columns.length === 0 ? {} : { columns: columns.join('.') };
  return new URLSearchParams({ ...values, ...(sort === '' ? {} : { sort }), ...chosen, ...more });
}

export const addressOf = (path: string, view: Selection, more: Record<string, string> = {}): string =>
  pathWith(path, Object.fromEntries(parametersOf(view, more)));

/** Maximum length of all company names in an address (characters). Servers can reject longer addresses. */
const maxNames = 2_000;

/**
 * Returns the address of a search for people who work for these companies. Leaves out the last companies if the names
 * are too long.
 */
export function peopleOfCompanies(names: readonly string[]): string {
  // A semicolon separates names, so of a name with one, its longest part is searched for.
  const longestOf = (texts: readonly string[]) => texts.toSorted((a, b) => b.length - a.length)[0]!;
  const parts = names.map((name) => longestOf(name.split(';')).trim());
  let length = 0;
  const some = parts.filter((name) => (length += name.length) <= maxNames).slice(0, 100);
  return pathWith('/app/prospects', { job_company_name: some.join('; ') });
}

const path = '/app/contacts';

const word = (name: string): string => fieldWord('contacts', name);

export const nameOfContact = (contact: object): string => nameOf('contact', contact);

const status = word('verification_status');

/** Returns a link to the company of a contact, or an empty text for a record without a company. */
export function companyLink(row: object): Html {
  const { company } = row as Partial<ContactDetail>;
  return company?.id ? link(company.company_name, `/app/companies/${company.id}`) : '';
}

const owner = ({ assigned_to }: ContactDetail, users: readonly User[]): Html =>
  html`${users.find(({ id }) => id === assigned_to)?.name ?? ''}`;

/** Returns the outcome of the check of a contact's address. Where nobody has checked it, there is nothing to say. */
const checked = ({ verification_status: one }: ContactDetail): Html => when(one !== 'unverified', verification(one));

export const contactKind: RecordKind<ContactDetail> = {
  object: 'contacts',
  path,
  noun: 'contact',
  title: 'Contacts',
  picture: 'people',
  advice: 'Import a list, create a contact, or unlock prospects: then you can search, sort and verify them here.',
  searched: 'names, e-mails, phones and companies',
  controls: [
    { name: 'search', label: 'Search', control: 'search', field: 'search' },
    { name: 'company', label: 'Company', control: 'text', field: 'company.company_name' },
    { name: 'title', label: word('job_title'), control: 'text', field: 'job_title' },
    { name: 'country', label: 'Country', control: 'country', field: 'location_country' },
    { name: 'city', label: word('location_locality'), control: 'text', field: 'location_locality' },
    { name: 'list', label: 'List', control: 'list', field: 'list_id' },
    { name: 'status', label: status, control: 'status', field: 'verification_status' },
    { name: 'owner', label: 'Owner', control: 'user', field: 'assigned_to' },
    { name: 'since', label: 'Created since', control: 'since', field: 'created_at' },
    { name: 'of', label: 'Company', control: 'hidden', field: 'company_id' },
    { name: 'like', label: 'Similar to', control: 'any', field: '_or' },
  ],
  columns: [
    { name: 'name', head: 'Name', cell: (row) => html`${nameOfContact(row)}`, sort: 'last_name' },
    { name: 'title', head: word('job_title'), cell: ({ job_title }) => html`${job_title}` },
    { name: 'company', head: 'Company', cell: companyLink },
    { name: 'phone', head: 'Phone', cell: contactPhone },
    { name: 'email', head: word('work_email'), cell: ({ work_email }) => mailLink(work_email), sort: 'work_email' },
    { name: 'status', head: status, cell: checked },
    { name: 'country', head: 'Country', cell: (row) => html`${countryName(row.location_country)}`, ...optional },
    { name: 'city', head: word('location_locality'), cell: (row) => html`${row.location_locality}`, ...optional },
    { name: 'owner', head: 'Owner', cell: owner, ...optional },
    ...serviceColumns,
  ],
  acts: { list: 'Add to a list', out: 'Take out', assign: 'Assign', verify: 'Verify', ...actsOfAll },
  setTogether: ['company', 'job_title', 'industry', 'location_locality', 'location_country'],
  nameOf: nameOfContact,
  about: ({ work_email, company: { company_name } }) => [work_email, company_name],
  likely: ({ first_name, last_name, work_email, phone_numbers }) =>
    [last_name || first_name, work_email, ...phone_numbers.map(({ number }) => number)].filter(Boolean),
  fields: formFieldsOf(contactTable),
  suggested: (request) => Promise.resolve({ company: queryText(request, 'company') }),
  // Somebody of whom only a phone number is known is a contact too, as in batches and files.
  needsOneOf: contactBatches.needsOneOf,
  schemas: { create: contactBatches.create, patch: ContactPatch, filters: ContactFilters },
  list: listContacts as RecordKind<ContactDetail>['list'],
  countUpTo: countContactsUpTo,
  find: findContacts,
  ...contactWrites,
  // With this e-mail address, or with this name, at the same company if there is one.
  twins: ({ work_email, first_name, last_name, company = {} }: Partial<ContactCreate>) => {
    const { name } = company;
    const named = { first_name, last_name, ...(name && { 'company.company_name': name }) } as Record<string, string>;
    return [...(work_email ? [{ work_email }] : []), ...(first_name && last_name ? [named] : [])];
  },
  exported: exportContacts,
  head: ['job_title', 'company', 'work_email', 'phone_numbers', 'mobile_phone', 'assigned_to'],
  workplace: ({ id }) => ({ filters: { contact_id: id }, about: { contact_id: id } }),
  related,
  detaches: async (request, { id, list_ids }) => {
    const lists = await ask(request, findListsOfContact, id, list_ids);
    const deals = await search(request, countOpportunities, { contact_id: id });
    const left = [
      lists.length > 0 && counted(lists.length, 'list'),
      deals > 0 && counted(deals, 'opportunity', 'opportunities'),
    ].filter(Boolean);
    return when(left.length > 0, `It leaves ${left.join(' and ')}, which stay.`);
  },
};

async function related(request: FastifyRequest, { id, list_ids }: ContactDetail): Promise<Html> {
  const [lists, all, deals] = await Promise.all([
    ask(request, findListsOfContact, id, list_ids),
    listChoices(request),
    opportunitiesOf(request, { contact: id }),
  ]);
  const choices = all.filter((list) => !list_ids.includes(list.id)).map((list) => [list.id, list.name] as const);
  const change = (body: Html) => form(pathWith(`${path}/lists`, { back: `${path}/${id}?done=listed` }), body);
  const choice = select('name="list_id" aria-label="List" required', [['', 'a list'], ...choices], '');
  const add = html`!${hidden({ id })}
    <div role="group">!${choice} <button class="secondary outline">Add</button></div>`;
  const rows = lists.map((list) => {
    const remove = html`<button class="link" aria-label="Take out of ${list.name}">Take out</button>`;
    const out = change(html`!${hidden({ id, list_id: list.id, do: 'remove' })} !${remove}`);
    const rest = list.by_hand ? out : '<span class="quiet">by its rules</span>';
    return html`!${link(list.name, `/app/lists/${list.id}`)} !${rest}`;
  });
  return html`!${deals}
  !${panel('Lists', html`!${plainList(rows, 'In no list.')} !${when(choices.length > 0, change(add))}`)}`;
}

const place = ({ location_locality: locality, location_country: country }: Company): Html =>
  html`${[locality, countryName(country)].filter(Boolean).join(', ')}`;

const upTo = (number = 0): Html =>
  number > maxOfCompany ? `${count(maxOfCompany)}+` : when(number > 0, count(number));

/** Returns the path of the table of the contacts of these companies. */
export const peoplePath = (...ids: readonly string[]): string => pathWith(path, { of: ids.join('.') });

const peopleLink = ({ id, contacts }: Company & Partial<CompanyCounts>): Html =>
  when(contacts, link(upTo(contacts), peoplePath(id)));

/** Returns the newest companies, then the newest contacts, that a search finds: at most `limit` of each. */
export async function findByText(request: FastifyRequest, given: string, limit: number) {
  const find = async (kind: RecordKind) => {
    const { rows } = await ask(request, kind.list, { filters: { search: given }, paginate: { limit } });
    return rows.map((row) => {
      const about = [plain(kind.noun), aboutOf(kind, row)].filter(Boolean).join(' · ');
      return { kind, row, name: kind.nameOf(row), path: `${kind.path}/${row.id}`, about };
    });
  };
  return given === '' ? [] : (await Promise.all([find(companyKind), find(contactKind)])).flat();
}

export const companyKind: RecordKind<Company & Partial<CompanyCounts>> = {
  object: 'companies',
  path: '/app/companies',
  noun: 'company',
  title: 'Companies',
  picture: 'company',
  advice: 'Companies come with the contacts that work for them. Import a file, or create one.',
  searched: 'company names',
  controls: [
    { name: 'search', label: 'Search', control: 'search', field: 'search' },
    { name: 'industry', label: 'Industry', control: 'text', field: 'industry' },
    { name: 'type', label: 'Type', control: 'text', field: 'type' },
    { name: 'country', label: 'Country', control: 'country', field: 'location_country' },
    { name: 'status', label: 'Status', control: 'status', field: 'verification_status' },
    { name: 'since', label: 'Created since', control: 'since', field: 'created_at' },
    { name: 'like', label: 'Similar to', control: 'any', field: '_or' },
  ],
  columns: [
    { name: 'name', head: 'Name', cell: ({ company_name }) => html`${company_name}`, sort: 'company_name' },
    { name: 'industry', head: 'Industry', cell: ({ industry }) => html`${industry}` },
    { name: 'type', head: 'Type', cell: ({ type }) => html`${type}` },
    { name: 'size', head: 'Size', cell: ({ size }) => html`${size}` },
    { name: 'place', head: 'Place', cell: place },
    { name: 'contacts', head: 'Contacts', cell: peopleLink, kind: 'number' },
    { name: 'deals', head: 'Open deals', cell: ({ open_opportunities: deals }) => upTo(deals), kind: 'number' },
    { name: 'activity', head: 'Last activity', cell: ({ last_activity_at: at }) => (at ? date(at) : '') },
    ...serviceColumns,
  ],
  acts: { people: 'See contacts', ...actsOfAll },
  setTogether: ['type', 'industry', 'size', 'location_locality', 'location_country'],
  nameOf: ({ company_name }) => company_name,
  about: (row) => [row.domain, row.location_locality, countryName(row.location_country)],
  likely: ({ company_name }) => company_name.split(' ', 1),
  fields: formFieldsOf(companyTable),
  suggested: () => Promise.resolve({ type: 'prospect' }),
  schemas: { create: CompanyCreate, patch: CompanyPatch, filters: CompanyFilters },
  list: listCompanies,
  withCounts: async (request, rows) => {
    const ids = rows.map(({ id }) => id);
    const counts = new Map((await search(request, countsOfCompanies, ids)).map((one) => [one.id, one]));
    return rows.map((row) => ({ ...row, ...counts.get(row.id) }));
  },
  countUpTo: countCompaniesUpTo,
  find: findCompanies,
  ...companyWrites,
  twins: ({ domain }: Partial<Company>) => (domain ? [{ domain }] : []),
  exported: exportCompanies,
  head: ['type', 'industry', 'size', 'location_locality', 'location_country'],
  workplace: ({ id }) => ({ filters: { company_or_its_contacts: id }, about: { company_id: id } }),
  related: async (request, { id, company_name }) => {
    const filters = { company_id: id };
    const [people, all, deals] = await Promise.all([
      ask(request, listContacts, { filters, paginate: { limit: 10 } }),
      ask(request, countContacts, { filters }),
      opportunitiesOf(request, { company: id }),
    ]);
    const total = all.pagination.total_records;
    const rows = people.rows.map((row) => {
      return html`!${link(nameOfContact(row), `${path}/${row.id}`)} <span class="quiet">${row.job_title}</span>`;
    });
    const body = html`!${plainList(rows, 'Nobody here works for this company.')}
      !${when(rows.length < total, html`<p><a href="${peoplePath(id)}">Show all ${counted(total, 'contact')}</a></p>`)}
      <p><a href="${peopleOfCompanies([company_name])}">Find more people of this company in the catalog</a></p>`;
    const add = link('New contact', pathWith(`${path}/new`, { company: company_name }));
    return html`!${panel('Contacts', body, add)} !${deals}`;
  },
  detaches: async (request, { id }) => {
    const people = await ask(request, countContacts, { filters: { company_id: id } });
    const deals = await search(request, countOpportunities, { company_id: id });
    const contacts = counted(people.pagination.total_records, 'contact');
    return `${contacts} and ${counted(deals, 'opportunity', 'opportunities')} stay, without a company.`;
  },
};
