import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { notFound, SpendCapExceeded } from '../../errors.ts';
import { spenderOf } from '../../access/credentials.ts';
import { estimateListVerification, startListVerification } from '../../jobs/start-verification.ts';
import { sessionOf } from '../../plugins/auth.ts';
import { listContacts } from '../../queries/crm/contacts.ts';
import { createList, deleteList, findList, listLists, listTag, updateList } from '../../queries/crm/lists.ts';
import type { Contact, ContactDetail } from '../../schemas/contacts.ts';
import { ListCreate, ListPatch, type List } from '../../schemas/lists.ts';
import { forAdmins, forMembers, questionRoutes, goTo, sendPage, formRoutes, type FormPage } from '../base/layout.ts';
import {
  dearerText,
  doneNotice,
  idOf,
  once,
  payerOf,
  queryOf,
  text,
  fieldsOf,
  inputField,
  integer,
  requireValid,
  tick,
} from '../base/forms.ts';
import type { Fields, Refused } from '../base/forms.ts';
import { count, counted, cursorPager, empty, facts, html, linkButton, moment, table, buttons } from '../base/html.ts';
import type { Html } from '../base/html.ts';
import { priceOf } from '../base/words.ts';
import { contactKind } from './kinds.ts';
import { peopleOfCompanies } from './record-kind.ts';
import { editLinks, editor, savedNotice } from './editor.ts';
import { listControls, listOf, rulesText } from './list-rules.ts';
import { rowsOf } from './record-list.ts';
import { usersOf } from './record-form.ts';
import { estimateEnrichment, findEnriched, startEnrichment } from '../../jobs/enrichment.ts';
import { EnrichContacts } from '../../schemas/clean-data.ts';
import { compile } from '../../validation/validator.ts';

const section = '/app/lists';

export async function lists(app: FastifyInstance): Promise<void> {
  app.get('/lists', forMembers, async (request, reply) => {
    const cursor = text(queryOf(request), 'cursor');
    const page = await listLists(request.db, request.caller.customerId, cursor ? { cursor } : {});
    const users = await usersOf(request);
    const add = linkButton('New list', `${section}/new`);
    const body = html`!${table(
      'Lists',
      [
        ['List', nameCell],
        ['Contacts', (list) => count(list.contacts_count), 'number'],
        ['Rules', ({ rules }) => (rules.length === 0 ? byHand : rulesText(rules.slice(0, 3), users))],
        ['Owner', (list) => html`${list.owner_name}`],
        ['Last changed', (list) => moment(list.updated_at)],
      ],
      page.rows,
      cursor === ''
        ? empty('No lists yet', 'A list holds contacts that you put into it, or all that match its rules.', add, 'list')
        : undefined,
    )}
    !${cursorPager(section, cursor, page.nextCursor)}`;
    return sendPage(request, reply, {
      title: 'Lists',
      body: html`!${doneNotice(request)}!${body}`,
      actions: page.rows.length > 0 ? add : '',
    });
  });

  app.get('/lists/:id', forMembers, async (request, reply) => showList(request, reply));

  app.get('/lists/:id/people', forMembers, async (request, reply) => {
    const { id } = await requireList(request);
    const members = await listContacts(request.db, request.caller.customerId, {
      filters: { list_id: id },
      paginate: { limit: maxMembers },
    });
    const names = (members.rows as ContactDetail[]).flatMap(({ company }) => company.company_name ?? []);
    return goTo(reply, peopleOfCompanies([...new Set(names)]));
  });

  editor<List>(app, {
    path: section,
    noun: 'list',
    schemas: { create: ListCreate, patch: ListPatch },
    require: requireList,
    nameOf: ({ name }) => name,
    tagOf: listTag,
    bodyOf: listOf,
    controls: listControls,
    buttons: html`<button name="do" value="preview" class="secondary outline">How many match?</button>`,
    verb: 'Save',
    create: async (sql, { customerId, userId }, body) => (await createList(sql, customerId, userId, body)).id,
    update: updateList,
    remove: deleteList,
    question: (_request, { name, contacts_count }) =>
      html`<strong>${name}</strong> is deleted. For 90 days this can be undone. Its
        ${counted(contacts_count, 'contact')} stay.`,
    showsNotice: true,
  });

  questionRoutes(app, '/lists/:id/verify', forAdmins, {
    ask: async (request) => {
      const { db, caller, server } = request;
      const list = await requireList(request);
      const price = await db.transaction((sql) =>
        estimateListVerification(sql, spenderOf(caller), server.config, { listId: list.id }),
      );
      return {
        title: 'Verify the list',
        text: html`The e-mail addresses of ${counted(list.contacts_count, 'contact')} in
          <strong>${list.name}</strong> are checked, and the outcome is stored with the contacts. !${priceOf(price)}`,
        back: `${section}/${list.id}`,
        refusal: 'Not now',
        tone: '',
      };
    },
    act: async (request) => {
      const id = idOf(request, 'list');
      const { config } = request.server;
      const job = await once(request, (sql) => startListVerification(sql, payerOf(request), config, { listId: id }));
      return job ? `/app/jobs/${job.id}?list=${id}` : '/app/jobs?done=sent';
    },
    warn: (error) => (error instanceof SpendCapExceeded ? dearerText : undefined),
  });
}

/** Maximum number of members whose companies are used to search for other people. Newest members are used first. */
const maxMembers = 1_000;

async function requireList(request: FastifyRequest): Promise<List> {
  const list = await findList(request.db, request.caller.customerId, idOf(request, 'list'));
  if (!list) throw notFound('list');
  return list;
}

const byHand = html`<span class="quiet">by hand</span>`;

const nameCell = ({ id, name, description }: List): Html =>
  html`<a href="${section}/${id}">${name}</a>
    !${description === '' ? '' : html`<br /><span class="quiet">${description}</span>`}`;

async function showList(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const [list, users] = [await requireList(request), await usersOf(request)];
  const { id, name, description, rules, contacts_count, owner_name, created_at, updated_at } = list;
  const query = { filters: { list_id: id }, paginate: { limit: 10 } };
  const members = await listContacts(request.db, request.caller.customerId, query);
  const isAdmin = sessionOf(request).role === 'admin';
  return sendPage(request, reply, {
    title: name,
    actions: html`!${
      isAdmin && contacts_count > 0
        ? html`!${linkButton('Verify', `${section}/${id}/verify`, 'secondary outline', 'data-dialog')}
          !${linkButton('Enrich', `${section}/${id}/enrich`, 'secondary outline')}`
        : ''
    }
    !${editLinks(`${section}/${id}`)}`,
    body: html`!${savedNotice(request, 'list', { added: 'The contacts are in the list.' })}
      !${description === '' ? '' : html`<p class="lead">${description}</p>`}
      <div class="card">
        !${facts([
          ['Rules', rules.length === 0 ? 'None: contacts are put in by hand' : rulesText(rules, users)],
          ['Owner', html`${owner_name}`],
          ['Created', moment(created_at)],
          ['Last changed', moment(updated_at)],
        ])}
      </div>
      <h2>${counted(contacts_count, 'contact')}</h2>
      !${contacts_count === 0 ? emptyList(rules.length > 0) : membersOf(list, members.rows)}`,
  });
}

const emptyList = (hasRules: boolean): Html =>
  hasRules
    ? empty('Nobody matches', 'No contact matches the rules. Change them, or import more contacts.', '', 'people')
    : empty(
        'Nobody yet',
        'Choose contacts and add them to this list.',
        linkButton('Choose contacts', '/app/contacts', 'secondary outline'),
        'people',
      );

const membersOf = ({ id }: List, rows: readonly Contact[]): Html =>
  html`!${rowsOf(contactKind, rows as ContactDetail[])}
    <p>
      <a href="/app/contacts?list=${id}">Show all of them</a> ·
      <a href="${section}/${id}/people">Find other people of their companies</a> · Export:
      <a href="/app/contacts/export?list=${id}&format=xlsx" download>Excel</a> ·
      <a href="/app/contacts/export?list=${id}&format=csv" download>CSV</a>
    </p>`;

export async function enrichList(app: FastifyInstance): Promise<void> {
  const check = compile(EnrichContacts);

  formRoutes(app, '/lists/:id/enrich', forAdmins, {
    show: ask,
    act: async (request) => {
      const { db, caller } = request;
      const { id } = await requireList(request);
      const body = bodyOf(id, fieldsOf(request));
      requireValid(check, body);
      const ids = await findEnriched(db, caller.customerId, body);
      const job = await once(request, (sql) => startEnrichment(sql, spenderOf(caller), app.config, body, ids));
      return job ? `/app/jobs/${job.id}` : '/app/jobs?done=sent';
    },
  });

  async function ask(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
    const { db, caller } = request;
    const list = await requireList(request);
    const fields = fieldsOf(request);
    const body = { filters: { list_id: list.id }, max_credits: maxCredits };
    const ids = await findEnriched(db, caller.customerId, body);
    const price = await db.transaction((sql) => estimateEnrichment(sql, spenderOf(caller), app.config, body, ids));
    const limit = text(fields, 'max_credits') || String(Math.min(price.cost, price.available));
    return {
      title: `Enrich ${list.name}`,
      body: html`<p>
          Looks for ${counted(price.contacts, 'contact')} in the catalog, by e-mail, profile, or name and company, and
          fills their empty fields. Who is not found, or was unlocked before, costs nothing.
        </p>
        !${priceOf(price)}
        !${inputField(
          {
            name: 'max_credits',
            label: 'Spend at most',
            hint: 'Credits. When they are used up, the rest is left out.',
            faults,
          },
          limit,
          'text',
          'inputmode="numeric" autocomplete="off"',
        )}
        !${tick('checkbox', ['overwrite', '1'], 'Also replace what the contacts have', text(fields, 'overwrite') === '1')}
        !${buttons('Enrich now', `${section}/${list.id}`, 'Back')}`,
      attributes: 'data-once',
      isNarrow: true,
    };
  }
}

const maxCredits = 1_000_000_000;

const bodyOf = (listId: string, fields: Fields): EnrichContacts => ({
  filters: { list_id: listId },
  overwrite: text(fields, 'overwrite') === '1',
  max_credits: integer(fields, 'max_credits'),
});
