import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import { DomainError, preconditionFailed, type Fault } from '../../errors.ts';
import { statuses } from '../../plugins/error-handler.ts';
import type { DeleteRecord, FindRecords, UpdateRecord } from '../../queries/records/finders.ts';
import { etagOf } from '../../text/ids.ts';
import { forMembers, urlOf, withUndo, formRoutes, question, type PageAccess, type FormPage } from '../base/layout.ts';
import { hidden } from '../base/forms.ts';
import { once, lookUp, write, sentEarlier, fieldsOf, idOf, sentText, required, notSent } from '../base/requests.ts';
import { requireValid } from '../base/requests.ts';
import type { Fields, Refused } from '../base/requests.ts';
import { when, linkButton, html, type Html } from '../base/html.ts';

interface Editable<Row> {
  path: string;
  noun: string;
  /** Without `create`, which the function `create` needs, there is no form for a new record. */
  schemas: { create?: object; patch: object };
  about: (request: FastifyRequest) => Promise<Row>;
  nameOf: (row: Row) => string;
  /** Returns the version of a record, to detect changes by others. Default: a hash of the record. */
  tagOf?: (row: Row) => string;
  bodyOf: (request: FastifyRequest, stored: Row | undefined) => Promise<Draft> | Draft;
  controls: (form: EditForm<Row>, request: FastifyRequest) => Promise<Html> | Html;
  /** Verb on the button for a new record. Default: `Save`. */
  verb?: 'Create';
  /** Returns a notice of other records that may be the same, or undefined. The user can save the form all the same. */
  similar?: (request: FastifyRequest, body: object, id?: string) => Promise<Html | undefined>;
  /** Further buttons. A button with the name `do` and the value `preview` only shows the form again. */
  buttons?: Html;
  create?: (sql: Transaction, customerId: string, body: never, userId: string) => Promise<string>;
  update: UpdateRecord<never>;
  remove?: DeleteRecord;
  question?: (row: Row, request: FastifyRequest) => Html | Promise<Html>;
  /** Returns the path to which a form leads back. Default: the record's page. */
  back?: (row: Row, request: FastifyRequest) => string;
  /** Returns the path of the page after a change. Default: the record's page. */
  afterChange?: (row: Row, request: FastifyRequest) => string;
  /** Returns the path of the page after a deletion. Default: the list of records. */
  afterDeletion?: (row: Row, request: FastifyRequest) => string;
  access?: PageAccess;
}

/** Body of an API request, as a form describes it, and the faults that were found while reading the form. */
export interface Draft {
  body: object;
  faults?: Fault[];
  /** Creates other records to which the body refers, in the same transaction. Returns the body with their ids. */
  complete?: (sql: Transaction) => Promise<object>;
}

export interface EditForm<Row> extends Refused {
  stored: Row | undefined;
  sent: Fields | undefined;
  /** True if another user has changed the record since the form was opened. */
  isConflict: boolean;
}

/**
 * Adds the forms that create, change and delete a record. If the record has changed since a form was opened, shows the
 * form again.
 */
export function editor<Row extends { id: string }>(app: FastifyInstance, kind: Editable<Row>): void {
  const { path, noun, about, remove, access = forMembers, tagOf = etagOf } = kind;
  const below = path.replace('/app', '');
  const backOf = kind.back ?? (({ id }: Row) => `${path}/${id}`);

  const { create } = kind;
  const created = kind.schemas.create;
  if (create && created)
    formRoutes(app, `${below}/new`, access, {
      show,
      act: async (request) => {
        const { body, faults, complete } = await kind.bodyOf(request, undefined);
        requireValid(created, body, faults);
        const doubtful = isPreview(request) ? notSent : await doubtOf(request, body);
        if (doubtful) return doubtful;
        const id = await once(request, async (sql) =>
          create(sql, request.caller.customerId, ((await complete?.(sql)) ?? body) as never, request.caller.userId),
        );
        return id === undefined ? `${path}?done=sent` : `${path}/${id}?done=created`;
      },
    });

  formRoutes(app, `${below}/:id/edit`, access, {
    show,
    act: async (request) => {
      const { caller } = request;
      const [found, etag] = [await about(request), sentText(request, 'etag')];
      const saved = kind.afterChange?.(found, request) ?? `${path}/${found.id}?done=changed`;
      if (etag !== tagOf(found)) {
        if ((await sentEarlier(request)) === 'same') return saved;
        throw preconditionFailed();
      }
      const { body, faults, complete } = await kind.bodyOf(request, found);
      requireValid(kind.schemas.patch, body, faults);
      const doubtful = isPreview(request) ? notSent : await doubtOf(request, body, found.id);
      if (doubtful) return doubtful;
      await once(request, async (sql) =>
        kind.update(sql, caller.customerId, found.id, ((await complete?.(sql)) ?? body) as never, etag),
      );
      return saved;
    },
  });

  if (!remove) return;
  question(app, `${below}/:id/delete`, access, {
    about,
    title: `Delete the ${noun}`,
    text: (found, request) => kind.question?.(found, request) ?? '',
    back: backOf,
    refusal: 'Keep it',
    etag: tagOf,
    act: async (request) => {
      const found = await about(request);
      await write(request, remove, found.id, sentText(request, 'etag'));
      return withUndo(request, kind.afterDeletion?.(found, request) ?? `${path}?done=deleted`);
    },
  });

  async function doubtOf(request: FastifyRequest, body: object, id?: string): Promise<Refused | undefined> {
    if (!kind.similar || sentText(request, 'do') === 'anyway' || (await sentEarlier(request))) return undefined;
    const doubt = await kind.similar(request, body, id);
    return doubt === undefined ? undefined : { faults: {}, status: statuses.conflict, doubt };
  }

  async function show(request: FastifyRequest, refused: Refused): Promise<FormPage> {
    const sent = request.method === 'POST' ? fieldsOf(request) : undefined;
    const isNew = !('id' in (request.params as object));
    const stored = isNew
      ? undefined
      : await about(request).catch((error: unknown) => {
          if (sent && error instanceof DomainError && error.code === 'not_found') return undefined;
          throw error;
        });
    const isGone = !isNew && !stored;
    const isConflict = refused.status === statuses.precondition_failed;
    return {
      ...(stored && { action: urlOf(request) }),
      ...(refused.doubt && { above: refused.doubt }),
      ...(isGone && { above: html`<p><a href="/app/deleted">Restore it</a>, then save what this form shows.</p>` }),
      title: stored ? `Change ${kind.nameOf(stored)}` : isGone ? `A deleted ${noun}` : `New ${noun}`,
      body: html`!${stored ? hidden({ etag: tagOf(stored) }) : ''}
        !${await kind.controls({ ...refused, stored, sent, isConflict }, request)}
        <div class="buttons">
          <button name="do" value="save">${stored ? 'Save' : (kind.verb ?? 'Save')} the ${noun}</button>
          !${when(refused.doubt, '<button name="do" value="anyway" class="secondary outline">Save it all the same</button>')}
          !${kind.buttons ?? ''}
          !${linkButton('Cancel', stored ? backOf(stored, request) : path, 'secondary outline', 'data-close')}
        </div>`,
      attributes: 'data-keep',
    };
  }
}

export async function requireRecord<Row>(request: FastifyRequest, noun: string, find: FindRecords<Row>): Promise<Row> {
  const [found] = await lookUp(request, find, [idOf(request, noun)]);
  return required(found, noun);
}

export const isPreview = (request: FastifyRequest): boolean => sentText(request, 'do') === 'preview';

export const editLinks = (path: string): Html =>
  html`!${linkButton('Edit', `${path}/edit`, 'secondary outline')}
  !${linkButton('Delete', `${path}/delete`, 'danger outline', 'data-dialog')}`;

/** Returns what a page tells after a record was created or changed, by the value of the query parameter `done`. */
export const savedTexts = (noun: string, others: Record<string, string> = {}): Record<string, string> => ({
  created: `The ${noun} is created.`,
  changed: `The ${noun} is saved.`,
  ...others,
});
