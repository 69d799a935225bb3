import { Type } from '@sinclair/typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { forbidden, notFound } from '../errors.ts';
import { deleteView, listSavedViews, saveView } from '../queries/accounts/customers.ts';
import type { SavedView, ViewObject } from '../queries/accounts/customers.ts';
import { canonicalId } from '../text/ids.ts';
import { forMembers, formRoutes, question, type FormPage } from './base/layout.ts';
import { controlsFor, hidden } from './base/forms.ts';
import { readForm, lookUp, write, fieldsOf, givenIn, text, isAdmin, oneOf, requireValid } from './base/requests.ts';
import type { Fields, Refused } from './base/requests.ts';
import { when, dialogLink, buttons, html, type Html } from './base/html.ts';
import { companyKind, contactKind } from './records/kinds.ts';
import { parametersOf, viewOf } from './records/record-kind.ts';

/**
 * Functions by table that return the parameters of an address that a saved view keeps. They leave out the page and
 * messages.
 */
const keptOf: Readonly<Record<ViewObject, (fields: Fields) => URLSearchParams>> = {
  contacts: (fields) => parametersOf(viewOf(contactKind, fields)),
  companies: (fields) => parametersOf(viewOf(companyKind, fields)),
  opportunities: (fields) => {
    const given = ['pipeline', 'owner'].map((name): [string, string] => [name, canonicalId(text(fields, name)) ?? '']);
    return new URLSearchParams(given.filter(([, id]) => id !== ''));
  },
};

const isObject = (name: string): name is ViewObject => Object.hasOwn(keptOf, name);

const maxName = 60;

/** Maximum length of the parameters of a saved view (characters). */
const maxQuery = 2_000;

const Given = Type.Object({ name: Type.String({ minLength: 1, maxLength: maxName }) });

export async function savedViews(app: FastifyInstance): Promise<void> {
  formRoutes(app, '/views/new', forMembers, {
    show: showNew,
    act: async (request) => {
      const fields = fieldsOf(request);
      const object = objectIn(fields);
      const query = keptOf[object](readForm(text(fields, 'query'))).toString();
      const name = text(fields, 'name').trim();
      const tooLong = { path: '', message: 'this view has too long filters to be saved' };
      requireValid(Given, { name }, query.length > maxQuery ? [tooLong] : []);
      const view = { object, name, query, user_id: request.caller.userId, is_shared: text(fields, 'for') === 'all' };
      await write(request, saveView, view);
      return pathOf(view);
    },
  });

  question(app, '/views/:id/delete', forMembers, {
    about: requireOwn,
    title: 'Delete the view',
    section: ({ object }) => `/app/${object}`,
    text: ({ name, is_shared: isShared }) =>
      html`<strong>${name}</strong> is deleted${isShared ? ', for everybody' : ''}. What it shows stays.`,
    back: pathOf,
    refusal: 'Keep it',
    act: async (request) => {
      const { id, object } = await requireOwn(request);
      await write(request, deleteView, id);
      return `/app/${object}`;
    },
  });
}

const pathOf = ({ object, query }: Pick<SavedView, 'object' | 'query'>): string =>
  `/app/${object}${query === '' ? '' : `?${query}`}`;

function objectIn(fields: Fields): ViewObject {
  const object = text(fields, 'object');
  if (!isObject(object)) throw notFound('table');
  return object;
}

const viewsOf = (request: FastifyRequest): Promise<SavedView[]> =>
  lookUp(request, listSavedViews, request.caller.userId);

const isDeletable = (request: FastifyRequest, { user_id }: SavedView): boolean =>
  user_id === request.caller.userId || isAdmin(request);

/**
 * Returns the saved view in the request's path.
 * @throws DomainError `not_found` if this user may not see it; `forbidden` if this user may not delete it
 */
async function requireOwn(request: FastifyRequest): Promise<SavedView> {
  const view = oneOf(request, 'view', await viewsOf(request));
  if (!isDeletable(request, view)) throw forbidden();
  return view;
}

function showNew(request: FastifyRequest, { faults }: Refused): FormPage {
  const fields = givenIn(request);
  const [object, query] = [objectIn(fields), text(fields, 'query')];
  const { input, choice } = controlsFor(fields, faults);
  return {
    title: 'Save this view',
    section: `/app/${object}`,
    body: html`!${hidden({ object, query })}
    !${input('name', 'Name', {
      hint: 'A view of yours with this name is replaced.',
      more: html`maxlength="${maxName}" autocomplete="off" required`,
    })}
    !${choice('for', 'Who sees it', Object.entries({ me: 'only me', all: 'everybody here' }))}
    !${buttons('Save the view', `/app/${object}?${keptOf[object](readForm(query)).toString()}`)}`,
    isNarrow: true,
  };
}

/**
 * Returns links to the saved views of a table, and a link that saves the current view.
 * @param shown parameters of the current view
 */
export async function viewLinks(request: FastifyRequest, object: ViewObject, shown: URLSearchParams): Promise<Html> {
  const views = (await viewsOf(request)).filter((one) => one.object === object);
  const now = shown.toString();
  if (now === '' && views.length === 0) return '';
  const current = views.find(({ query }) => query === now);
  const save = new URLSearchParams({ object, query: now }).toString();
  return html`<ul class="chips views" aria-label="Saved views">
    !${views.map((view) => html`<li>!${viewLink(request, view, view.query === now)}</li>`)}
    !${now === '' || current ? '' : html`<li><a href="/app/views/new?${save}" data-dialog>Save this view</a></li>`}
  </ul>`;
}

function viewLink(request: FastifyRequest, view: SavedView, isCurrent: boolean): Html {
  const link = html`<a href="${pathOf(view)}" !${when(isCurrent, 'aria-current="true"')}>${view.name}</a>`;
  if (!isCurrent) return link;
  const remove = dialogLink('×', `/app/views/${view.id}/delete`, `Delete the view ${view.name}`);
  return html`<strong>!${link}</strong> !${when(isDeletable(request, view), remove)}`;
}
