import type { TObject } from '@sinclair/typebox';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, notFound } from '../../errors.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import { etagOf } from '../../text/etag.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers } from '../base/access.ts';
import { faultsOf, fieldsOf, formFaults, idOf, refusalOf, text, tokenOf, type Faults } from '../base/forms.ts';
import { html, notice, type Html } from '../base/html.ts';
import { form, goTo, sendPage } from '../base/layout.ts';
import { deletion } from './deletion.ts';
import { changesOf, recordForm, textsOf, textsOfRecord } from './record-form.ts';
import type { RecordKind, ShownRecord } from './record-kind.ts';

/** Forms that create, change and delete one record. They call the functions of the API's routes. */
export function recordEdit<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const { path, noun, fields: formFields } = kind;
  const below = path.replace('/app', '');
  const checkNew = compile(kind.schemas.create);
  const checkPatch = compile(kind.schemas.patch);

  app.get(`${below}/new`, forMembers, async (request, reply) => showNew(request, reply, {}, 200));

  app.post(`${below}/new`, forMembers, async (request, reply) => {
    const { db, caller } = request;
    const fields = fieldsOf(request);
    const changes = await changesOf(formFields, fields, undefined, kind.schemas.create as TObject);
    const body = { ...kind.blank, ...changes };
    const faults = faultsOf(checkNew, body);
    if (Object.keys(faults).length > 0) return showNew(request, reply, faults, 400);
    try {
      const id = await db.transaction(async (sql) =>
        (await markSent(sql, caller.customerId, tokenOf(fields)))
          ? kind.create(sql, caller.customerId, body as never)
          : undefined,
      );
      return await goTo(reply, id === undefined ? `${path}?done=sent` : `${path}/${id}?done=created`);
    } catch (error) {
      const refusal = refusalOf(error);
      return showNew(request, reply, refusal.faults, refusal.status);
    }
  });

  app.get(`${below}/:id/edit`, forMembers, async (request, reply) => {
    const found = await requireRecord(request, kind);
    return showEdit(request, reply, found, { texts: await textsOfRecord(formFields, found) });
  });

  app.post(`${below}/:id/edit`, forMembers, async (request, reply) => {
    const { db, caller } = request;
    const [found, fields] = [await requireRecord(request, kind), fieldsOf(request)];
    const [texts, etag] = [textsOf(formFields, fields), text(fields, 'etag')];
    if (etag !== etagOf(found)) return showConflict(request, reply, found);
    const changes = await changesOf(formFields, fields, found, kind.schemas.patch as TObject);
    const faults = faultsOf(checkPatch, changes);
    if (Object.keys(faults).length > 0) return showEdit(request, reply, found, { texts, faults });
    try {
      await db.transaction((sql) => kind.update(sql, caller.customerId, found.id, changes as never, etag));
    } catch (error) {
      if (error instanceof DomainError && error.code === 'precondition_failed')
        return showConflict(request, reply, await requireRecord(request, kind));
      const refusal = refusalOf(error);
      return showEdit(request, reply, found, { texts, ...refusal });
    }
    return goTo(reply, `${path}/${found.id}?done=changed`);
  });

  deletion(app, {
    path,
    noun,
    require: (request) => requireRecord(request, kind),
    tagOf: etagOf,
    question: async ({ db, caller }, found) =>
      html`<strong>${kind.nameOf(found)}</strong> is deleted for good.
        ${await kind.detaches(db, caller.customerId, found)}`,
    remove: kind.remove,
    done: `${path}?done=deleted&n=1`,
  });

  async function showNew(request: FastifyRequest, reply: FastifyReply, faults: Faults, status: number) {
    const fields = fieldsOf(request);
    const state = {
      texts: textsOf(formFields, fields),
      custom: {},
      given: fields,
      faults,
      users: await usersOf(request),
    };
    return sendPage(request, reply, {
      title: `New ${noun}`,
      section: path,
      status,
      body: formOf(
        request,
        reply,
        `${path}/new`,
        html`!${recordForm(formFields, state)} !${buttons(`Create the ${noun}`, path)}`,
        faults,
      ),
    });
  }

  /** Shows the form with the values of the user; where the stored value differs, it is below the field. */
  async function showConflict(request: FastifyRequest, reply: FastifyReply, found: Row): Promise<FastifyReply> {
    const [texts, stored] = [textsOf(formFields, fieldsOf(request)), await textsOfRecord(formFields, found)];
    const theirs = Object.fromEntries(Object.entries(stored).filter(([name, value]) => value !== texts[name]));
    return showEdit(request, reply, found, { texts, theirs, status: statuses.precondition_failed });
  }

  async function showEdit(
    request: FastifyRequest,
    reply: FastifyReply,
    found: Row,
    { texts, faults = {}, theirs, status }: Shown,
  ): Promise<FastifyReply> {
    const users = await usersOf(request);
    const state = {
      texts,
      custom: found.custom_fields,
      given: fieldsOf(request),
      faults,
      users,
      ...(theirs ? { theirs } : {}),
    };
    const body = html`<input type="hidden" name="etag" value="${etagOf(found)}" />!${recordForm(formFields, state)}
      !${buttons('Save', `${path}/${found.id}`)}`;
    return sendPage(request, reply, {
      title: `Change ${kind.nameOf(found)}`,
      section: path,
      status: status ?? (Object.keys(faults).length > 0 ? 400 : 200),
      body: html`!${theirs ? conflictNotice(noun) : ''}
      !${formOf(request, reply, `${path}/${found.id}/edit`, body, faults)}`,
    });
  }

  const formOf = (request: FastifyRequest, reply: FastifyReply, action: string, body: Html, faults: Faults): Html =>
    form(request, reply, {
      action,
      attributes: 'data-keep',
      body: html`!${formFaults(faults, [...formFields.map(({ name }) => name), 'custom_fields'])}!${body}`,
    });
}

interface Shown {
  texts: Record<string, string>;
  faults?: Faults;
  theirs?: Record<string, string>;
  status?: number;
}

const conflictNotice = (noun: string): Html =>
  notice(
    `Somebody changed this ${noun} while you were editing it, and nothing of yours is saved yet. Where what is stored ` +
      'now differs from your form, it stands below the field. Save to keep what the form shows.',
    'warning',
  );

const buttons = (label: string, back: string): Html =>
  html`<div class="buttons">
    <button>${label}</button>
    <a role="button" class="secondary outline" href="${back}">Cancel</a>
  </div>`;

export const usersOf = ({ db, caller }: FastifyRequest) => db.lookup((sql) => listUsers(sql, caller.customerId));

/** @throws DomainError `not_found` if the customer has no record with the id in the request's path */
export async function requireRecord<Row extends ShownRecord>(
  request: FastifyRequest,
  kind: RecordKind<Row>,
): Promise<Row> {
  const id = idOf(request, kind.noun);
  const [found] = await request.db.lookup((sql) => kind.find(sql, request.caller.customerId, [id]));
  if (!found) throw notFound(kind.noun);
  return found;
}
