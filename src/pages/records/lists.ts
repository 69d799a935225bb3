import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, notFound } from '../../errors.ts';
import { spenderOf } from '../../credentials/caller.ts';
import { estimateListVerification, startListVerification } from '../../jobs/verification/start-verification.ts';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { listContacts } from '../../queries/crm/contacts.ts';
import { createList, deleteList, findList, listLists, listTag, updateList } from '../../queries/crm/lists.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import type { Contact, ContactDetail } from '../../schemas/contacts.ts';
import { ListCreate, type List } from '../../schemas/lists.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins, forMembers } from '../base/access.ts';
import { faultsOf, fieldsOf, idOf, queryOf, refusalOf, sentBefore, text, tokenOf } from '../base/forms.ts';
import { count, counted, empty, facts, html, moment, notice, pager, table, type Html } from '../base/html.ts';
import { goTo, sendConfirmation, sendPage } from '../base/layout.ts';
import { priceOf } from '../base/values.ts';
import { contactKind } from './contact-kind.ts';
import { peopleOfCompanies } from '../prospects/prospect-address.ts';
import { deletion } from './deletion.ts';
import { draftOf, sendListForm } from './list-form.ts';
import { rowsOf } from './record-list.ts';
import { rulesText } from './rule-words.ts';

const section = '/app/lists';

/** The pages of contact lists. */
export async function lists(app: FastifyInstance): Promise<void> {
  const check = compile(ListCreate);

  app.get('/lists', forMembers, async (request, reply) => {
    const cursor = text(queryOf(request), 'cursor');
    const page = await listLists(request.db, request.caller.customerId, cursor ? { cursor } : {});
    const add = html`<a role="button" href="${section}/new">New list</a>`;
    const body =
      page.rows.length === 0 && cursor === ''
        ? empty('No lists yet', 'A list holds contacts that you put into it, or all that match its rules.', add, 'list')
        : html`!${table('Lists', ['List', 'Contacts', 'Rules', 'Owner', 'Last changed'], page.rows.map(row))}
          !${pager({
            newer: cursor ? section : undefined,
            older: page.nextCursor && `${section}?cursor=${encodeURIComponent(page.nextCursor)}`,
          })}`;
    return sendPage(request, reply, {
      title: 'Lists',
      section,
      body: html`!${text(queryOf(request), 'done') === 'sent' ? sentBefore : ''}!${body}`,
      actions: page.rows.length > 0 ? add : '',
    });
  });

  const newForm = { title: 'New list', action: `${section}/new`, back: section };
  app.get('/lists/new', forMembers, async (request, reply) =>
    sendListForm(request, reply, { ...newForm, draft: { name: '', description: '', rules: [] } }),
  );

  app.post('/lists/new', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const draft = draftOf(fieldsOf(request));
    const isPreview = text(fieldsOf(request), 'do') === 'preview';
    const faults = faultsOf(check, isPreview ? { ...draft, name: draft.name || '–' } : draft);
    if (isPreview || Object.keys(faults).length > 0)
      return sendListForm(request, reply, { ...newForm, draft, faults, isPreview });
    try {
      const made = await db.transaction(async (sql) =>
        (await markSent(sql, caller.customerId, tokenOf(request.body)))
          ? createList(sql, caller.customerId, caller.userId, draft)
          : undefined,
      );
      return await goTo(reply, made ? `${section}/${made.id}?done=saved` : `${section}?done=sent`);
    } catch (error) {
      return sendListForm(request, reply, { ...newForm, draft, ...refusalOf(error) });
    }
  });

  app.get('/lists/:id', forMembers, async (request, reply) => showList(request, reply));

  app.get('/lists/:id/people', forMembers, async (request, reply) => {
    const { id } = await requireList(request);
    const members = await listContacts(request.db, request.caller.customerId, {
      filters: { list_id: id },
      paginate: { limit: mostMembers },
    });
    const names = (members.rows as ContactDetail[]).flatMap(({ company }) => company.company_name ?? []);
    return goTo(reply, peopleOfCompanies([...new Set(names)]));
  });

  app.get('/lists/:id/edit', forMembers, async (request, reply) => {
    const list = await requireList(request);
    return sendListForm(request, reply, { ...editForm(list), draft: list, etag: listTag(list) });
  });

  app.post('/lists/:id/edit', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const [list, fields] = [await requireList(request), fieldsOf(request)];
    const [draft, etag] = [draftOf(fields), text(fields, 'etag')];
    const isPreview = text(fields, 'do') === 'preview';
    const shown = { ...editForm(list), draft, etag, isPreview };
    const faults = faultsOf(check, draft);
    if (isPreview || Object.keys(faults).length > 0) return sendListForm(request, reply, { ...shown, faults });
    try {
      await db.transaction((sql) => updateList(sql, caller.customerId, list.id, draft, etag));
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'precondition_failed')
        return sendListForm(request, reply, { ...shown, ...refusalOf(error) });
      return sendListForm(request, reply, {
        ...shown,
        etag: listTag(await requireList(request)),
        faults: { '': 'Somebody changed this list meanwhile. Nothing is saved yet: save again to keep your version.' },
        status: statuses.precondition_failed,
      });
    }
    return goTo(reply, `${section}/${list.id}?done=saved`);
  });

  deletion(app, {
    path: section,
    noun: 'list',
    require: requireList,
    tagOf: listTag,
    question: (_request, { name, contacts_count }) =>
      html`<strong>${name}</strong> is deleted for good. Its ${counted(contacts_count, 'contact')} stay.`,
    remove: deleteList,
    done: section,
  });

  app.get('/lists/:id/verify', forAdmins, async (request, reply) => {
    const { db, caller, server } = request;
    const list = await requireList(request);
    const spender = spenderOf(caller);
    const price = await db.transaction((sql) =>
      estimateListVerification(sql, spender, server.config, { listId: list.id }),
    );
    return sendConfirmation(request, reply, {
      title: 'Verify the list',
      section,
      text: html`The e-mail addresses of ${counted(list.contacts_count, 'contact')} in <strong>${list.name}</strong> are
        checked, and the outcome is stored with the contacts. !${priceOf(price)}`,
      action: `${section}/${list.id}/verify`,
      back: `${section}/${list.id}`,
      refusal: 'Not now',
      tone: '',
    });
  });

  app.post('/lists/:id/verify', forAdmins, async (request, reply) => {
    const { db, caller, server } = request;
    const id = idOf(request, 'list');
    const job = await db.transaction(async (sql) =>
      (await markSent(sql, caller.customerId, tokenOf(request.body)))
        ? startListVerification(sql, spenderOf(caller), server.config, { listId: id })
        : undefined,
    );
    return goTo(reply, job ? `/app/jobs/${job.id}?list=${id}` : '/app/jobs?done=sent');
  });
}

/** The newest members, of whose companies other people are searched for. */
const mostMembers = 1_000;

const editForm = ({ id, name }: List) => ({
  title: `Change ${name}`,
  action: `${section}/${id}/edit`,
  back: `${section}/${id}`,
});

/** @throws DomainError `not_found` */
async function requireList(request: FastifyRequest): Promise<List> {
  const list = await findList(request.db, request.caller.customerId, idOf(request, 'list'));
  if (!list) throw notFound('list');
  return list;
}

const row = ({ id, name, description, contacts_count, rules, owner_name, updated_at }: List): Html =>
  html`<tr>
    <td>
      <a href="${section}/${id}">${name}</a>
      !${description === '' ? '' : html`<br /><span class="quiet">${description}</span>`}
    </td>
    <td class="number">${count(contacts_count)}</td>
    <td>!${rules.length === 0 ? html`<span class="quiet">by hand</span>` : rulesText(rules.slice(0, 3))}</td>
    <td>${owner_name}</td>
    <td>!${moment(updated_at)}</td>
  </tr>`;

async function showList(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const list = await requireList(request);
  const { id, name, description, rules, contacts_count, owner_name, created_at, updated_at } = list;
  const query = { filters: { list_id: id }, paginate: { limit: 10 } };
  const members = await listContacts(request.db, request.caller.customerId, query);
  const isAdmin = sessionOf(request).role === 'admin';
  const done = text(queryOf(request), 'done');
  return sendPage(request, reply, {
    title: name,
    section,
    actions: html`!${
        isAdmin && contacts_count > 0
          ? html`<a role="button" class="secondary outline" href="${section}/${id}/verify" data-dialog>Verify</a>
              <a role="button" class="secondary outline" href="${section}/${id}/enrich">Enrich</a>`
          : ''
      }
      <a role="button" href="${section}/${id}/edit">Edit</a>
      <a role="button" class="danger outline" href="${section}/${id}/delete" data-dialog>Delete</a>`,
    body: html`!${done === 'saved' ? notice('The list is saved.') : ''}
      !${done === 'added' ? notice('The contacts are in the list.') : ''}
      !${description === '' ? '' : html`<p class="lead">${description}</p>`}
      <div class="card">
        !${facts([
          ['Rules', rules.length === 0 ? 'None: contacts are put in by hand' : rulesText(rules)],
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
        html`<a role="button" class="secondary outline" href="/app/contacts">Choose contacts</a>`,
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
