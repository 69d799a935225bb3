import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import { DomainError, type Fault } from '../../errors.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import type { DeleteRecord, UpdateRecord } from '../../queries/records/finders.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers } from '../base/access.ts';
import {
  conflictOf,
  doneNotice,
  fieldsOf,
  hidden,
  idOf,
  notSent,
  once,
  refusalOf,
  requireValid,
  text,
  type Fields,
  type Refused,
} from '../base/forms.ts';
import { html, linkButton, type Html } from '../base/html.ts';
import { goTo, sendConfirmation, sendForm, withUndo } from '../base/layout.ts';

/** Records of one kind that forms create, change and delete. They call the functions of the API's routes. */
export interface Editable<Row> {
  path: string;
  noun: string;
  schemas: { create: object; patch: object };
  /** Returns the record of the request's path. */
  require: (request: FastifyRequest) => Promise<Row>;
  nameOf: (row: Row) => string;
  tagOf: (row: Row) => string;
  /** Returns the body of the API's call that a submitted form stands for, not validated yet. */
  bodyOf: (request: FastifyRequest, stored: Row | undefined) => Promise<{ body: object; faults?: Fault[] }>;
  controls: (request: FastifyRequest, form: EditForm<Row>) => Promise<Html>;
  /** Names of the fields that show their faults themselves. */
  fields: readonly string[];
  /** On the button of the form for a new record. */
  verb: 'Create' | 'Save';
  /** Further buttons. One that sends `preview` as `do` only shows the form again. */
  buttons?: Html;
  create: (sql: Transaction, caller: FastifyRequest['caller'], body: never) => Promise<string>;
  update: UpdateRecord<never>;
  remove: DeleteRecord;
  /** Says what a deletion deletes, and what stays. */
  question: (request: FastifyRequest, row: Row) => Html | Promise<Html>;
  /** The record's page has a message about what was done: see `savedNotice`. */
  isTold?: true;
  /** Path of the page that follows a deletion. */
  afterDeletion: string;
}

/** What a form shows. */
export interface EditForm<Row> {
  /** Undefined for a new record. */
  stored: Row | undefined;
  /** The submitted form, if there is one. */
  sent: Fields | undefined;
  refused: Refused;
  /** Somebody else has changed the record since the user opened the form. */
  isConflict: boolean;
}

/**
 * Adds the forms that create, change and delete a record. If the record has changed since the user opened a form, the
 * form is shown again.
 */
export function editor<Row extends { id: string }>(app: FastifyInstance, kind: Editable<Row>): void {
  const { path, noun } = kind;
  const below = path.replace('/app', '');
  const told = (what: string): string => (kind.isTold ? `?done=${what}` : '');
  const checkNew = compile(kind.schemas.create);
  const checkPatch = compile(kind.schemas.patch);

  app.get(`${below}/new`, forMembers, async (request, reply) => show(request, reply));

  app.post(`${below}/new`, forMembers, async (request, reply) => {
    try {
      const { body, faults } = await kind.bodyOf(request, undefined);
      requireValid(checkNew, body, faults);
      if (isPreview(request)) return await show(request, reply);
      const id = await once(request, (sql) => kind.create(sql, request.caller, body as never));
      return await goTo(reply, id === undefined ? `${path}?done=sent` : `${path}/${id}${told('created')}`);
    } catch (error) {
      return show(request, reply, undefined, refusalOf(error));
    }
  });

  app.get(`${below}/:id/edit`, forMembers, async (request, reply) => show(request, reply, await kind.require(request)));

  app.post(`${below}/:id/edit`, forMembers, async (request, reply) => {
    const { db, caller } = request;
    const [found, etag] = [await kind.require(request), text(fieldsOf(request), 'etag')];
    if (etag !== kind.tagOf(found)) return show(request, reply, found, conflictOf(noun));
    try {
      const { body, faults } = await kind.bodyOf(request, found);
      requireValid(checkPatch, body, faults);
      if (isPreview(request)) return await show(request, reply, found);
      await db.transaction((sql) => kind.update(sql, caller.customerId, found.id, body as never, etag));
      return await goTo(reply, `${path}/${found.id}${told('changed')}`);
    } catch (error) {
      if (isStale(error)) return show(request, reply, await kind.require(request), conflictOf(noun));
      return show(request, reply, found, refusalOf(error));
    }
  });

  app.get(`${below}/:id/delete`, forMembers, async (request, reply) => askToDelete(request, reply));

  app.post(`${below}/:id/delete`, forMembers, async (request, reply) => {
    const [id, etag] = [idOf(request, noun), text(fieldsOf(request), 'etag')];
    try {
      await request.db.transaction((sql) => kind.remove(sql, request.caller.customerId, id, etag));
    } catch (error) {
      if (!isStale(error)) throw error;
      return askToDelete(request, reply, `Somebody changed this ${noun} meanwhile, and it is not deleted yet.`);
    }
    return goTo(reply, withUndo(request, kind.afterDeletion));
  });

  async function show(request: FastifyRequest, reply: FastifyReply, stored?: Row, refused = notSent) {
    const sent = request.method === 'POST' ? fieldsOf(request) : undefined;
    const isConflict = refused.status === statuses.precondition_failed;
    const [here, back] = stored ? [`${path}/${stored.id}/edit`, `${path}/${stored.id}`] : [`${path}/new`, path];
    return sendForm(request, reply, {
      title: stored ? `Change ${kind.nameOf(stored)}` : `New ${noun}`,
      section: path,
      action: here,
      body: html`!${stored ? hidden({ etag: kind.tagOf(stored) }) : ''}
        !${await kind.controls(request, { stored, sent, refused, isConflict })}
        <div class="buttons">
          <button name="do" value="save">${stored ? 'Save' : kind.verb} the ${noun}</button>
          !${kind.buttons ?? ''} !${linkButton('Cancel', back, 'secondary outline')}
        </div>`,
      attributes: 'data-keep',
      fields: kind.fields,
      refused,
    });
  }

  async function askToDelete(request: FastifyRequest, reply: FastifyReply, warning?: string): Promise<FastifyReply> {
    const found = await kind.require(request);
    return sendConfirmation(request, reply, {
      title: `Delete the ${noun}`,
      section: path,
      text: await kind.question(request, found),
      action: `${path}/${found.id}/delete`,
      back: `${path}/${found.id}`,
      refusal: 'Keep it',
      etag: kind.tagOf(found),
      ...(warning === undefined ? {} : { warning }),
    });
  }
}

/** The button was the one that only shows the form again. */
export const isPreview = (request: FastifyRequest): boolean => text(fieldsOf(request), 'do') === 'preview';

const isStale = (error: unknown): boolean => error instanceof DomainError && error.code === 'precondition_failed';

/** Returns the links beside the heading of a record's page. */
export const editLinks = (path: string): Html =>
  html`!${linkButton('Edit', `${path}/edit`)}
  !${linkButton('Delete', `${path}/delete`, 'danger outline', 'data-dialog')}`;

/** Returns a message about what a form has just done with a record. */
export const savedNotice = (request: FastifyRequest, noun: string, others: Record<string, string> = {}): Html =>
  doneNotice(request, { created: `The ${noun} is created.`, changed: `The ${noun} is saved.`, ...others });
