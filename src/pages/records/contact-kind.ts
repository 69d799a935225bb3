import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  countContactsUpTo,
  createContact,
  deleteContact,
  exportContacts,
  findContacts,
  listContacts,
  updateContact,
} from '../../queries/crm/contacts.ts';
import { writeContactBatch } from '../../queries/crm/contact-batches.ts';
import { findListsOfContact, type ListOfContact } from '../../queries/memberships/contact-lists.ts';
import { countOpportunities } from '../../queries/sales/opportunities.ts';
import { contactBatches } from '../../schemas/batches.ts';
import { ContactPatch, type ContactDetail } from '../../schemas/contacts.ts';
import { hidden, select } from '../base/forms.ts';
import { counted, html, moment, type Html } from '../base/html.ts';
import { form } from '../base/layout.ts';
import { countryName, mailLink, verification } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';
import { opportunitiesOf } from './opportunity-rows.ts';
import { listChoices } from './list-choices.ts';
import { fieldsUnder, verificationFacts, type FormField, type RecordKind } from './record-kind.ts';

const path = '/app/contacts';

const person = fieldsUnder('contacts', 'Person');
const reach = fieldsUnder('contacts', 'How to reach them');
const work = fieldsUnder('contacts', 'Work');
const place = fieldsUnder('contacts', 'Place');
const profiles = fieldsUnder('contacts', 'Profiles and more');

const fields: readonly FormField[] = [
  person('first_name'),
  person('middle_name'),
  person('last_name'),
  person('gender'),
  person('birth_year', 'number'),
  reach('work_email', 'email'),
  reach('personal_email', 'email'),
  reach('other_emails', 'lines', 'One on each line.'),
  reach('phone_numbers', 'phones', 'One on each line, such as +44 20 7946 0000.'),
  reach('mobile_phone'),
  work('company', 'company', 'A company with this name is used, or created if there is none.'),
  work('job_title'),
  work('industry'),
  work('assigned_to', 'user'),
  place('location_locality'),
  place('location_region'),
  place('location_postal_code'),
  place('location_country', 'country'),
  profiles('profnet_url', 'url'),
  profiles('social1_url', 'url'),
  profiles('social2_url', 'url'),
  profiles('external_id', 'text', 'The id of the contact in another system of yours.'),
];

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
    { name: 'title', label: fieldWord('contacts', 'job_title'), control: 'text', field: 'job_title', isPart: true },
    { name: 'country', label: 'Country', control: 'country', field: 'location_country' },
    { name: 'list', label: 'List', control: 'list', field: 'list_id' },
    {
      name: 'status',
      label: fieldWord('contacts', 'verification_status'),
      control: 'status',
      field: 'verification_status',
    },
    { name: 'of', label: 'Company', control: 'hidden', field: 'company_id' },
  ],
  sorts: [
    ['last_name', 'last name'],
    ['work_email', 'work e-mail'],
    ['-score', 'highest score first'],
    ['-updated_at', 'changed last'],
    ['created_at', 'oldest first'],
  ],
  columns: [
    { head: 'Name', cell: (row) => html`${nameOfContact(row)}` },
    { head: fieldWord('contacts', 'job_title'), cell: ({ job_title }) => html`${job_title}` },
    { head: 'Company', cell: company },
    { head: fieldWord('contacts', 'work_email'), cell: ({ work_email }) => mailLink(work_email) },
    {
      head: fieldWord('contacts', 'verification_status'),
      cell: ({ verification_status }) => verification(verification_status),
    },
    { head: 'Country', cell: ({ location_country }) => html`${countryName(location_country)}` },
  ],
  nameOf: nameOfContact,
  fields,
  facts: (row) => [
    ...verificationFacts('contacts', row),
    [fieldWord('contacts', 'crm_synced_at'), moment(row.crm_synced_at, 'never')],
  ],
  blank: {},
  // Somebody of whom only a phone number is known is a contact too, as in batches and files.
  needs: contactBatches.needsOneOf ?? [],
  schemas: { create: contactBatches.create, patch: ContactPatch },
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
  return html`<h2>Lists</h2>
    <div class="card">
      !${
        lists.length === 0
          ? html`<p class="quiet">In no list.</p>`
          : html`<ul class="plain">
              !${lists.map((list) => listRow(request, reply, id, list))}
            </ul>`
      }
      !${others.length === 0 ? '' : form(request, reply, { action: `${path}/${id}/lists`, body, attributes: 'class="inline-form"' })}
    </div>
    <h2>Opportunities</h2>
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
