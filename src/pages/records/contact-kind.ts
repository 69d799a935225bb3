import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  countContactsUpTo,
  createContact,
  exportContacts,
  findContacts,
  listContacts,
  updateContact,
} from '../../queries/crm/contacts.ts';
import { deleteContact } from '../../queries/crm/deletions.ts';
import { writeContactBatch } from '../../queries/crm/contact-batches.ts';
import { findListsOfContact, type ListOfContact } from '../../queries/memberships/contact-lists.ts';
import { countOpportunities } from '../../queries/sales/opportunities.ts';
import { contactBatches } from '../../schemas/batches.ts';
import { ContactFilters, ContactPatch, contactTable, type ContactDetail } from '../../schemas/contacts.ts';
import { hidden, select } from '../base/forms.ts';
import { counted, html, moment, type Html } from '../base/html.ts';
import { form } from '../base/layout.ts';
import { countryName, mailLink, phoneLink, verification } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';
import { opportunitiesOf } from './opportunity-rows.ts';
import { listChoices } from './list-choices.ts';
import { formFieldsOf, timeColumns, verificationFacts, type RecordKind } from './record-kind.ts';

const path = '/app/contacts';

const word = (name: string): string => fieldWord('contacts', name);

/** Returns a contact's name, or what else it can be called by. */
export const nameOfContact = ({
  first_name,
  last_name,
  work_email,
}: Pick<ContactDetail, 'first_name' | 'last_name' | 'work_email'>): string =>
  `${first_name} ${last_name}`.trim() || work_email || 'Without a name';

const company = ({ company: { id, company_name } }: ContactDetail): Html =>
  id === null ? '' : html`<a href="/app/companies/${id}">${company_name}</a>`;

/** Contacts, for the pages that treat contacts and companies the same way. */
export const contactKind: RecordKind<ContactDetail> = {
  object: 'contacts',
  path,
  noun: 'contact',
  title: 'Contacts',
  picture: 'people',
  advice: 'Import a list, create a contact, or unlock prospects: then you can search, sort and verify them here.',
  controls: [
    { name: 'search', label: 'Search', control: 'search', field: 'search' },
    { name: 'company', label: 'Company', control: 'text', field: 'company.company_name', isPart: true },
    { name: 'title', label: word('job_title'), control: 'text', field: 'job_title', isPart: true },
    { name: 'country', label: 'Country', control: 'country', field: 'location_country' },
    { name: 'list', label: 'List', control: 'list', field: 'list_id' },
    {
      name: 'status',
      label: word('verification_status'),
      control: 'status',
      field: 'verification_status',
    },
    { name: 'owner', label: 'Owner', control: 'user', field: 'assigned_to' },
    { name: 'since', label: 'Created since', control: 'since', field: 'created_at' },
    { name: 'of', label: 'Company', control: 'hidden', field: 'company_id' },
  ],
  columns: [
    { name: 'name', head: 'Name', cell: (row) => html`${nameOfContact(row)}`, sort: 'last_name' },
    { name: 'title', head: word('job_title'), cell: ({ job_title }) => html`${job_title}` },
    { name: 'company', head: 'Company', cell: company },
    { name: 'email', head: word('work_email'), cell: ({ work_email }) => mailLink(work_email), sort: 'work_email' },
    {
      name: 'status',
      head: word('verification_status'),
      // There is nothing to verify where no address is.
      cell: ({ verification_status, work_email }) => (work_email === '' ? '' : verification(verification_status)),
    },
    { name: 'country', head: 'Country', cell: ({ location_country }) => html`${countryName(location_country)}` },
    {
      name: 'phone',
      head: 'Phone',
      cell: ({ phone_numbers: [phone], mobile_phone }) =>
        phone ? phoneLink(`${phone.country_code} ${phone.number}`.trim()) : phoneLink(mobile_phone ?? ''),
      isOptional: true,
    },
    { name: 'city', head: word('location_locality'), cell: (row) => html`${row.location_locality}`, isOptional: true },
    {
      name: 'owner',
      head: 'Owner',
      cell: ({ assigned_to }, users) => html`${users.find(({ id }) => id === assigned_to)?.name ?? ''}`,
      isOptional: true,
    },
    { name: 'score', head: 'Score', cell: ({ score }) => html`${score}`, sort: 'score', isOptional: true },
    ...timeColumns,
  ],
  nameOf: nameOfContact,
  fields: formFieldsOf(contactTable),
  facts: (row) => [...verificationFacts('contacts', row), [word('crm_synced_at'), moment(row.crm_synced_at, 'never')]],
  blank: {},
  // Somebody of whom only a phone number is known is a contact too, as in batches and files.
  needs: contactBatches.needsOneOf ?? [],
  schemas: { create: contactBatches.create, patch: ContactPatch, filters: ContactFilters },
  batches: contactBatches,
  list: listContacts as RecordKind<ContactDetail>['list'],
  countUpTo: countContactsUpTo,
  find: findContacts,
  create: createContact,
  update: updateContact,
  remove: deleteContact,
  write: writeContactBatch,
  exported: exportContacts,
  links: ({ company: { id } }) => (id === null ? {} : { company: `/app/companies/${id}` }),
  head: ['job_title', 'company', 'work_email', 'phone_numbers', 'mobile_phone', 'assigned_to'],
  workplace: ({ id }) => ({ filters: { contact_id: id }, about: { contact_id: id } }),
  related,
  detaches: async (db, customerId, { id, list_ids }) => {
    const [lists, deals] = await Promise.all([
      findListsOfContact(db, customerId, id, list_ids),
      db.search((sql) => countOpportunities(sql, customerId, { contact_id: id })),
    ]);
    return `It leaves ${counted(lists.length, 'list')} and ${counted(deals, 'opportunity', 'opportunities')}, which stay.`;
  },
};

async function related(request: FastifyRequest, reply: FastifyReply, { id, list_ids }: ContactDetail): Promise<Html> {
  const { db, caller } = request;
  const [lists, all, deals] = await Promise.all([
    findListsOfContact(db, caller.customerId, id, list_ids),
    listChoices(request),
    opportunitiesOf(request, { contact: id }),
  ]);
  const others = all.filter((list) => !list_ids.includes(list.id));
  const choices = others.map((list) => [list.id, list.name] as const);
  const body = html`!${select('name="list_id" aria-label="List"', choices, '')}
    <button class="secondary outline">Add to the list</button>`;
  return html`<section class="card">
      <h2>Lists</h2>
      !${
        lists.length === 0
          ? html`<p class="quiet">In no list.</p>`
          : html`<ul class="plain">
              !${lists.map((list) => listRow(request, reply, id, list))}
            </ul>`
      }
      !${others.length === 0 ? '' : form(request, reply, { action: `${path}/${id}/lists`, body, attributes: 'class="inline-form"' })}
    </section>
    !${deals}`;
}

/** Returns a list of the contact, with a button that takes it out if it was added by hand. */
function listRow(request: FastifyRequest, reply: FastifyReply, id: string, list: ListOfContact): Html {
  const remove = html`!${hidden({ list_id: list.id, do: 'remove' })}
    <button class="link" aria-label="Take out of ${list.name}">Take out</button>`;
  return html`<li>
    <a href="/app/lists/${list.id}">${list.name}</a>
    !${
      list.by_hand
        ? form(request, reply, { action: `${path}/${id}/lists`, body: remove, attributes: 'class="inline-form"' })
        : html`<span class="quiet">by its rules</span>`
    }
  </li>`;
}
