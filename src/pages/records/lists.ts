import type { FastifyInstance, FastifyRequest } from 'fastify';
import { spenderOf } from '../../access/credentials.ts';
import { estimateListVerification, startListVerification } from '../../jobs/verify-emails.ts';
import { listContacts } from '../../queries/crm/contacts.ts';
import { createList, deleteList, findList, listLists, listTag, updateList } from '../../queries/crm/lists.ts';
import type { Transaction } from '../../database/db.ts';
import type { Contact, ContactDetail } from '../../schemas/contacts.ts';
import { ListCreate, ListPatch, type List } from '../../schemas/lists.ts';
import { forMembers, forAdmins, addPage, formRoutes, question, listPage, jobPath } from '../base/layout.ts';
import type { Answer, FormPage } from '../base/layout.ts';
import { cursorPager, controlsFor, tick } from '../base/forms.ts';
import { once, payerOf, fieldsOf, text, integer, idOf, isAdmin, required, placeIn, ask } from '../base/requests.ts';
import { requireValid } from '../base/requests.ts';
import type { Fields, Refused } from '../base/requests.ts';
import { when, empty, linkButton, buttons, html, link, twoLines, moment, count } from '../base/html.ts';
import { counted } from '../base/html.ts';
import type { Html, Column } from '../base/html.ts';
import { priceOf } from '../base/words.ts';
import { contactKind } from './kinds.ts';
import { peopleOfCompanies } from './record-kind.ts';
import { editLinks, editor, savedTexts } from './editor.ts';
import { listControls, listOf, rulesText } from './list-rules.ts';
import { rowsOf } from './record-list.ts';
import { usersOf } from './record-form.ts';
import { findEnriched, planEnrichment } from '../../jobs/enrichment.ts';
import { estimateOf, startJob } from '../../jobs/start-job.ts';
import { EnrichContacts } from '../../schemas/clean-data.ts';

const section = '/app/lists';

export async function lists(app: FastifyInstance): Promise<void> {
  addPage(app, '/lists', forMembers, async (request) => {
    const page = await ask(request, listLists, placeIn(request));
    const users = await usersOf(request);
    const none = 'A list holds contacts that you put into it, or all that match its rules.';
    const columns: readonly Column<List>[] = [
      ['List', ({ id, name, description }) => twoLines(link(name, `${section}/${id}`), html`${description}`)],
      ['Contacts', (list) => count(list.contacts_count), 'number'],
      ['Rules', ({ rules }) => (rules.length === 0 ? byHand : rulesText(rules.slice(0, 3), users)), 'long'],
      ['Owner', (list) => html`${list.owner_name}`],
      ['Last changed', (list) => moment(list.updated_at)],
    ];
    return listPage({
      title: 'Lists',
      done: {},
      columns,
      rows: page.rows,
      none: ['No lists yet', none, 'list'],
      add: linkButton('New list', `${section}/new`),
      below: cursorPager(request, page.nextCursor),
    });
  });

  addPage(app, '/lists/:id', forMembers, showList);

  addPage(app, '/lists/:id/people', forMembers, async (request) => {
    const { id } = await requireList(request);
    const members = await ask(request, listContacts, { filters: { list_id: id }, paginate: { limit: maxMembers } });
    const names = (members.rows as ContactDetail[]).flatMap(({ company }) => company.company_name ?? []);
    return peopleOfCompanies([...new Set(names)]);
  });

  editor<List>(app, {
    path: section,
    noun: 'list',
    schemas: { create: ListCreate, patch: ListPatch },
    about: requireList,
    nameOf: ({ name }) => name,
    tagOf: listTag,
    bodyOf: listOf,
    controls: listControls,
    buttons: html`<button name="do" value="preview" class="secondary outline">How many match?</button>`,
    create: async (sql, customerId, body, userId) => (await createList(sql, customerId, userId, body)).id,
    update: updateList,
    remove: deleteList,
    question: ({ name, contacts_count }) =>
      html`<strong>${name}</strong> is deleted. This can be undone. Its ${counted(contacts_count, 'contact')} stay.`,
  });

  question(app, '/lists/:id/verify', forAdmins, {
    about: requireList,
    title: 'Verify the list',
    text: async ({ id, name, contacts_count }, { db, caller }) => {
      const estimate = (sql: Transaction) =>
        estimateListVerification(sql, spenderOf(caller), app.config, { listId: id });
      const price = await db.transaction(estimate);
      return html`The e-mail addresses of ${counted(contacts_count, 'contact')} in <strong>${name}</strong> are checked,
        and the outcome is stored with the contacts. !${priceOf(price)}`;
    },
    back: ({ id }) => `${section}/${id}`,
    refusal: 'Not now',
    tone: '',
    act: async (request) => {
      const id = idOf(request, 'list');
      const [payer, of] = [payerOf(request), { listId: id }];
      const job = await once(request, (sql) => startListVerification(sql, payer, app.config, of));
      return jobPath(job, { list: id });
    },
  });
}

/** Maximum number of list members whose companies a search for other people uses. The newest members are used. */
const maxMembers = 1_000;

const requireList = async (request: FastifyRequest): Promise<List> =>
  required(await ask(request, findList, idOf(request, 'list')), 'list');

const byHand = html`<span class="quiet">by hand</span>`;

const membersShown = 50;

async function showList(request: FastifyRequest): Promise<Answer> {
  const [list, users] = [await requireList(request), await usersOf(request)];
  const { id, name, description, rules, contacts_count, owner_name, updated_at } = list;
  const query = { filters: { list_id: id }, paginate: { limit: membersShown } } as const;
  const members = await ask(request, listContacts, query);
  const spending = html`!${linkButton('Verify', `${section}/${id}/verify`, 'secondary outline', 'data-dialog')}
  !${linkButton('Enrich', `${section}/${id}/enrich`, 'secondary outline')}`;
  return {
    title: name,
    lead: [
      html`${description}`,
      when(rules.length > 0, rulesText(rules, users)),
      html`${owner_name}`,
      html`changed !${moment(updated_at)}`,
    ]
      .filter(Boolean)
      .join(' · '),
    actions: html`!${when(isAdmin(request) && contacts_count > 0, spending)} !${editLinks(`${section}/${id}`)}`,
    done: savedTexts('list', { added: 'The contacts are in the list.' }),
    body: contacts_count === 0 ? emptyList(rules.length > 0) : membersOf(list, members.rows),
  };
}

const emptyList = (hasRules: boolean): Html =>
  hasRules
    ? empty('Nobody matches', 'No contact matches the rules. Change them, or import more contacts.', 'people')
    : empty('Nobody yet', 'Choose contacts and add them to this list.', 'people', chooseContacts);

const chooseContacts = linkButton('Choose contacts', '/app/contacts', 'secondary outline');

const membersOf = ({ id, contacts_count }: List, rows: readonly Contact[]): Html =>
  html`<div class="row apart">
      <p>
        <a href="/app/contacts?list=${id}"><strong>${counted(contacts_count, 'contact')}</strong></a>
      </p>
      <p class="quiet">
        <a href="${section}/${id}/people">Find other people of their companies</a> · Export:
        <a href="/app/contacts/export?list=${id}&format=xlsx" download>Excel</a> ·
        <a href="/app/contacts/export?list=${id}&format=csv" download>CSV</a>
      </p>
    </div>
    !${rowsOf(contactKind, rows)}
    !${when(rows.length < contacts_count, html`<p><a href="/app/contacts?list=${id}">Show all of them</a></p>`)}`;

export async function enrichList(app: FastifyInstance): Promise<void> {
  formRoutes(app, '/lists/:id/enrich', forAdmins, {
    show: showEnrichment,
    act: async (request) => {
      const { id } = await requireList(request);
      const body = bodyOf(id, fieldsOf(request));
      requireValid(EnrichContacts, body);
      const ids = await ask(request, findEnriched, body);
      const job = await once(request, (sql) =>
        startJob(sql, spenderOf(request.caller), planEnrichment(app.config, body, ids)),
      );
      return jobPath(job);
    },
  });

  async function showEnrichment(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
    const { db, caller } = request;
    const list = await requireList(request);
    const fields = fieldsOf(request);
    const body = { filters: { list_id: list.id }, max_credits: maxCredits };
    const ids = await ask(request, findEnriched, body);
    const plan = planEnrichment(app.config, body, ids);
    const price = await db.transaction((sql) => estimateOf(sql, spenderOf(caller), plan));
    const max_credits = text(fields, 'max_credits') || String(Math.min(price.cost, price.available));
    const { input } = controlsFor({ max_credits }, faults);
    const hint = 'Credits. When they are used up, the rest is left out.';
    return {
      title: `Enrich ${list.name}`,
      body: html`<p>
          Looks for ${counted(price.matches, 'contact')} in the catalog, by e-mail, profile, or name and company, and
          fills their empty fields. Who is not found, or was unlocked before, costs nothing.
        </p>
        !${priceOf(price)}
        !${input('max_credits', 'Spend at most', { hint, more: 'inputmode="numeric" autocomplete="off"' })}
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
