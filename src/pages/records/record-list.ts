import { verificationChoices, countryChoices, customValue, money } from '../base/words.ts';
import { undoButton, doneNotice, filters, numberedPager, labelled, select, tick, hidden } from '../base/forms.ts';
import { controlsFor, withoutNotice, type Choice } from '../base/forms.ts';
import { queryText, customName, isAdmin, passing, queryOf, ask, text, required, lookUp } from '../base/requests.ts';
import { write, fieldsOf, givenIn, oneOf, requireValid, type Fields, type Refused } from '../base/requests.ts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ListName } from '../../queries/crm/lists.ts';
import { listOpportunities } from '../../queries/crm/opportunities.ts';
import { findCompanies } from '../../queries/crm/companies.ts';
import type { Opportunity } from '../../schemas/opportunities.ts';
import { stagesById } from './deals.ts';
import { fold } from '../../text/fold.ts';
import type { DeclaredField } from '../../schemas/wire.ts';
import type { User } from '../../schemas/accounts.ts';
import { maxBatchItems } from '../../schemas/batches.ts';
import { forMembers, addPage, formRoutes, question, type FormPage, type Page } from '../base/layout.ts';
import { when, notice, empty, table, searchBox, linkButton, html, count, pathWith, someNames } from '../base/html.ts';
import { link, dialogLink, buttons, plainList, twoLines, type Html, type Column } from '../base/html.ts';
import { addressOf, filtersOf, parametersOf, requestOf, sortsOf, viewOf, listChoices, companyKind } from './kinds.ts';
import { aboutOf, contactKind, findByText, readInOrder } from './kinds.ts';
import type { View, FilterControl, RecordColumn, RecordKind, ShownRecord } from './kinds.ts';
import { declaredFor, usersOf } from './editor.ts';
import { Type } from '@sinclair/typebox';
import { forbidden } from '../../errors.ts';
import { deleteView, listSavedViews, saveView } from '../../queries/accounts/customers.ts';
import type { SavedView, ViewObject } from '../../queries/accounts/customers.ts';
import { canonicalId } from '../../text/ids.ts';
import { countryCodes } from '../../files/phones.ts';

export const pageRows = 25;

/** Maximum number of matching records that are counted exactly. */
export const maxCounted = 10_000;

/**
 * What the page of records that are filtered by a list shows instead of their title and buttons. Without a record,
 * `none` stands there.
 */
export type Heading = Pick<Page, 'section' | 'title' | 'lead' | 'actions'> & { none: Html };

type HeadingOf = (request: FastifyRequest, list: string) => Promise<Heading | undefined>;

export function recordList(app: FastifyInstance, builtIn: RecordKind, headingOf?: HeadingOf): void {
  const { path, title } = builtIn;
  addPage(app, path.replace('/app', ''), forMembers, async (request) => {
    const country = queryText(request, 'country');
    // A link can name a country in any language.
    const code = country && (await countryCodes())(country);
    if (code && code !== country) return pathWith(path, { ...queryOf(request), country: code });
    const kind = withCustomColumns(builtIn, await declaredFor(request, builtIn));
    const view = viewOf(kind, queryOf(request));
    const filters = filtersOf(kind.controls, view);
    const { list, of = '' } = view.values;
    const companies = of.split('.').flatMap((id) => canonicalId(id) ?? []);
    const [page, matches, lists, users, views, ofList, employers] = await Promise.all([
      ask(request, kind.list, requestOf(kind, view, pageRows)),
      ask(request, kind.countUpTo, filters, maxCounted),
      kind.object === 'contacts' ? listChoices(request, list) : [],
      usersOf(request),
      viewLinks(request, kind.object, parametersOf(view)),
      list === undefined ? undefined : headingOf?.(request, list),
      readInOrder(request, companyKind, companies.slice(0, maxNamed)),
    ]);
    const { none: noneInList, ...shown } = ofList ?? {};
    const names = someNames(employers.map(companyKind.nameOf), maxNamed, companies.length);
    const { userId: me } = request.caller;
    const known = { lists, users, me, employers: names, ...(ofList && list && { list }) };
    const chosen = await readInOrder(request, kind, view.ids);
    const found = [...chosen, ...page.rows.filter(({ id }) => !view.ids.includes(id))];
    const rows = (await kind.withCounts?.(request, found)) ?? found;
    // A full page has a cursor, the last one too. Behind a cursor, the number of the page does not tell where it is.
    const isLast = view.cursor === '' && matches <= Math.min(view.page * pageRows, maxCounted);
    return {
      title,
      actions: html`!${linkButton('Import', importPath(kind), 'secondary outline')}
      !${linkButton(`New ${kind.noun}`, `${path}/new`)}`,
      ...shown,
      done: doneText(request, kind),
      body: html`!${filterForm(kind, view, known)}
        <div class="row">!${chips(kind, view, known)} !${when(!ofList || parametersOf(view).size > 1, views)}</div>
        !${rows.length > 0 ? heading(kind, view, matches, page.rows.length) : noneInList || none(kind, view, ofList && { list })}
        !${when(rows.length > 0, chooser(kind, view, { rows, matches, users, isAdmin: isAdmin(request) }))}
        !${numberedPager(request, isLast ? undefined : page.nextCursor)}`,
    };
  });
}

/** Maximum number of contacts, and of companies, that the search beside each page shows. */
const mostFound = 5;

/** Adds the page of the search beside each page, whose script shows it there. A sent one (`find`) leads to all it finds. */
export function searchPage(app: FastifyInstance): void {
  addPage(app, '/search', forMembers, async (request) => {
    const { search } = viewOf(contactKind, queryOf(request)).values;
    if (search === undefined) return contactKind.path;
    // Suggestions while one types do not look at names that are in no index.
    const isSent = queryText(request, 'find') !== '';
    const [people, others] = await Promise.all([
      findByText(request, search, mostFound),
      isSent ? dealsAndLists(request, search) : [],
    ]);
    const rows = [...people, ...others];
    if (rows.length === 1 && isSent) return rows[0]!.path;
    const create = linkButton('New contact', `${contactKind.path}/new`);
    const advice = isSent
      ? 'The search looks at contacts, companies, opportunities and lists.'
      : 'Press Enter to look at opportunities and lists, too.';
    const none = empty('Nothing is found', advice, 'search', create);
    const found = rows.map(({ name, path, about }) => {
      const named = html`<a data-name="${about}" href="${path}">${name}</a>`;
      return html`<span>!${twoLines(named, html`${about}`)}</span>`;
    });
    const all = [contactKind, companyKind].map(({ title, path }) => link(title, pathWith(path, { search })));
    const further = html`!${plainList(found, '')}
      <p>Look further in: !${all.join(' · ')}</p>`;
    return { title: `Search for “${search}”`, body: rows.length === 0 ? none : further };
  });
}

const mostDeals = 25;

/** Returns opportunities and lists with a text in their name. Looks at the newest lists only. */
async function dealsAndLists(request: FastifyRequest, search: string) {
  const query = { filters: { name: { contains: search } }, paginate: { limit: mostDeals } };
  const [deals, lists, stages] = await Promise.all([
    ask(request, listOpportunities, query).catch(passing('unavailable', { rows: [] })),
    listChoices(request),
    stagesById(request),
  ]);
  const ids = new Set(deals.rows.flatMap(({ company_id }) => company_id ?? []));
  const companies = new Map((await lookUp(request, findCompanies, [...ids])).map((one) => [one.id, one.company_name]));
  const aboutDeal = ({ company_id, stage_id, price }: Opportunity): string => {
    const stage = stages.get(stage_id)!;
    const company = companies.get(company_id ?? '');
    return ['Opportunity', company, stage.name, money(price, stage.currency)].filter(Boolean).join(' · ');
  };
  const named = lists.filter(({ name }) => fold(name).includes(fold(search))).slice(0, mostFound);
  return [
    ...deals.rows.map((deal) => ({ name: deal.name, path: `/app/opportunities/${deal.id}`, about: aboutDeal(deal) })),
    ...named.map(({ id, name }) => ({ name, path: `/app/lists/${id}`, about: 'List' })),
  ];
}

function doneText(request: FastifyRequest, { noun, title }: RecordKind): Html {
  const [done, n] = [queryText(request, 'done'), queryText(request, 'n')];
  const number = Number(n);
  if (done === 'none') return notice('Choose some rows first.', 'warning');
  const few = `Tick two to five ${title.toLowerCase()}, then press Merge. If the other one is not here, search for it.`;
  if (done === 'few') return notice(few, 'plain');
  if (n === '' || !Object.hasOwn(actTexts, done)) return doneNotice(request);
  if (!Number.isInteger(number) || number < 0) return '';
  if (number === 0) return notice(actTexts[done]![1] ?? 'Nothing is changed.', 'plain');
  const what = `${count(number)} ${number === 1 ? `${noun} is` : `${title.toLowerCase()} are`}`;
  return notice(`${what} ${actTexts[done]![0]}.`, 'good', undoButton(request));
}

/** Messages by action: about some records, and about none. */
const actTexts: Readonly<Record<string, readonly [some: string, none?: string]>> = {
  deleted: ['deleted'],
  assigned: ['assigned'],
  edited: ['changed'],
  added: ['added to the list', 'They were in the list already.'],
  out: ['taken out of the list', 'They are in the list by its rules, and stay in it.'],
};

/** Maximum number of companies that the chip of a table of their contacts names. */
const maxNamed = 3;

function withCustomColumns(kind: RecordKind, declared: readonly DeclaredField[]): RecordKind {
  const own = declared.map(({ key, label: head }) => {
    const cell = ({ custom_fields: all }: ShownRecord) => (Object.hasOwn(all, key) ? customValue(all[key]!) : '');
    // Points divide the names of columns in addresses.
    return { name: customName(key).replaceAll('.', '~'), head, cell, isOptional: true as const };
  });
  return { ...kind, columns: [...kind.columns, ...own] };
}

/**
 * What a view refers to. `employers`: names of the companies whose contacts are shown; `list`: the list whose page this
 * is.
 */
type Known = Record<'me' | 'employers', string> & {
  lists: readonly ListName[];
  users: readonly User[];
  list?: string;
};

/** Maximum number of users that a filter offers. Every page of the list contains all of them. */
const maxUsers = 15;

const importPath = ({ object }: { object: string }): string => `/app/imports/new?object=${object}`;

function filterForm(kind: RecordKind, view: View, known: Known): Html {
  const { path, title, controls, searched } = kind;
  const { values, sort } = view;
  const mine = addressOf(path, { ...view, values: { ...values, owner: known.me } });
  const isOffered = values['owner'] !== known.me && controls.some(({ name }) => name === 'owner');
  const drop = (label: string, body: Html) =>
    html`<details class="drop">
      <summary role="button" class="secondary outline">${label}</summary>
      <div class="panel">!${body}</div>
    </details>`;
  const orders = sortsOf(kind).map((field): Choice => {
    const { head } = kind.columns.find((column) => column.sort === field.replace('-', ''))!;
    return [field, `${head}, ${field.startsWith('-') ? 'downwards' : 'upwards'}`];
  });
  // A phone shows no heads of columns, which sort elsewhere.
  const order = labelled('Order', select('name="sort"', [['', 'Newest first'], ...orders], sort));
  const others = controls.slice(1).map((control) => controlOf(control, values[control.name] ?? '', known));
  const box = (column: RecordColumn<never>) =>
    tick('checkbox', ['columns', column.name], html`${column.head}`, isShown(column, view));
  const columns = html`!${kind.columns.slice(1).map(box)} <button name="columns" value="name">Apply</button>`;
  const body = html`!${hidden({ id: view.ids })} !${searchBox(title.toLowerCase(), values['search'] ?? '', searched)}
  !${when(isOffered, linkButton('Mine', mine, 'secondary outline'))}
  !${drop('Filter', html`!${others} !${order} <button>Apply</button>`)} !${drop('Columns', columns)}`;
  return html`<search>!${filters(path, body, '')}</search>`;
}

/** Returns the filters that are set, and links to filters in which the searched text can be looked for instead. */
function chips({ path, noun, controls }: RecordKind, view: View, known: Known): Html {
  const { search, ...filtered } = view.values;
  const at = (values: View['values']) => addressOf(path, { ...view, values });
  // The list is the page itself.
  const used = controls.filter(
    ({ name, control }) => filtered[name] !== undefined && !(control === 'list' && known.list !== undefined),
  );
  const free = controls.filter(({ name, control }) => control === 'text' && filtered[name] === undefined);
  const beside = free.map(({ name, label }) => link(label, at({ ...filtered, [name]: search! })));
  const other: RecordKind = path === contactKind.path ? companyKind : contactKind;
  const elsewhere = [...beside, link(other.title, pathWith(other.path, { search }))];
  if (used.length === 0 && search === undefined) return '';
  return html`<ul class="chips">
    !${when(search, html`<li>Look for “${search}” in: !${elsewhere.join(' · ')}</li>`)}
    !${used.map(({ name, label, control }) => {
      const { [name]: value = '', ...values } = view.values;
      const found = choicesOf(control, known, value).find(([one]) => one === value)?.[1] ?? value;
      const word = control === 'any' ? `the chosen ${noun}` : found;
      return html`<li>
        ${label}: <strong>!${control === 'hidden' ? known.employers : html`${word}`}</strong>
        <a href="${at(values)}" aria-label="Take away: ${label}">×</a>
      </li>`;
    })}
    !${when(used.length > 0, html`<li>!${link('Clear all', at(known.list === undefined ? {} : { list: known.list }))}</li>`)}
  </ul>`;
}

function controlOf({ name, label, control }: FilterControl, value: string, known: Known): Html {
  // Who searches in another way than by likeness searches among all.
  if (control === 'any') return '';
  if (control === 'hidden') return value === '' ? '' : hidden({ [name]: value });
  if (control === 'since') return labelled(label, html`<input type="date" name="${name}" value="${value}" />`);
  if (control === 'text')
    return labelled(label, html`<input name="${name}" value="${value}" maxlength="256" autocomplete="off" />`);
  const choice = select(html`name="${name}"`, [['', 'any'], ...choicesOf(control, known, value)], value);
  return labelled(label, choice);
}

function choicesOf(control: FilterControl['control'], { lists, users, me }: Known, value: string): readonly Choice[] {
  if (control === 'country') return countryChoices;
  if (control === 'status') return verificationChoices;
  if (control === 'list') return lists.map(({ id, name }) => [id, name] as const);
  if (control !== 'user') return [];
  return users
    .toSorted((a, b) => Number(b.id === me) - Number(a.id === me) || a.name.localeCompare(b.name))
    .filter(({ id, active }) => active || id === value)
    .filter(({ id }, i) => id === value || i < maxUsers)
    .map(({ id, name }) => [id, id === me ? `${name} (me)` : name] as const);
}

export const numberOf = (matches: number, most = maxCounted): string =>
  matches > most ? `more than ${count(most)}` : count(matches);

function heading(kind: RecordKind, view: View, matches: number, rows: number): Html {
  const download = (format: string) => addressOf(`${kind.path}/export`, view, { format });
  const before = (view.page - 1) * pageRows;
  const place = matches > rows ? html`${count(before + 1)}–${count(before + rows)} of ` : '';
  return html`<div class="row apart">
    <p>!${place}<strong>${numberOf(matches)}</strong> ${matches === 1 ? kind.noun : kind.title.toLowerCase()}</p>
    <p class="quiet">
      Export: <a href="${download('xlsx')}" download>Excel</a> · <a href="${download('csv')}" download>CSV</a>
    </p>
  </div>`;
}

type Found = { rows: readonly ShownRecord[]; matches: number; users: readonly User[]; isAdmin: boolean };

function chooser(kind: RecordKind, view: View, { rows, matches, users, isAdmin }: Found): Html {
  const { path, title, nameOf } = kind;
  const shown = kind.columns.filter((one, i) => i === 0 || isShown(one, view));
  const named = (row: ShownRecord): Html => {
    const box = chooserBox(row.id, nameOf(row), when(view.ids.includes(row.id), 'checked'));
    return html`!${box}<a data-name="${aboutOf(kind, row)}" href="${path}/${row.id}">${nameOf(row)}</a>`;
  };
  const columns = shown.map((column, i): Column<ShownRecord> => [
    column.head,
    (row) => (i === 0 ? named(row) : column.cell(row, users)),
    i === 0 ? 'chosen-first' : column.kind,
    sorting(path, view, column),
  ]);
  const all = html`<label><input type="checkbox" name="all" value="1" /> all ${numberOf(matches)} that match</label>`;
  const acts = Object.entries(kind.acts)
    .filter(([name]) => (name === 'out' ? view.values['list'] !== undefined : name !== 'verify' || isAdmin))
    .map(([name, label]) => {
      const tone = name === 'delete' ? 'danger' : 'secondary';
      return html`<button name="do" value="${name}" class="${tone} outline">${label}</button>`;
    });
  return chooserForm(
    `${path}/chosen`,
    html`!${hidden(Object.fromEntries(parametersOf(view)))} !${table(title, columns, rows)}`,
    html`!${when(matches > rows.length && matches <= maxBatchItems, all)} !${acts}`,
  );
}

/**
 * Returns the form around a table whose rows can be chosen. It sends the chosen ids by the button that was pressed.
 * @param acts buttons for the chosen rows. A script shows them while rows are chosen
 * @param others buttons that need no chosen rows
 */
export const chooserForm = (action: string, body: Html, acts: Html, others: Html = ''): Html =>
  html`<form class="chooser rows" method="get" action="${action}" data-chooser>
    !${body}
    <div class="row">
      <div class="row" data-acts>
        <label data-choose-page hidden><input type="checkbox" /> this page</label>
        <span data-chosen class="quiet" role="status"></span>
        !${acts}
      </div>
      !${others}
    </div>
  </form>`;

export const chooserBox = (id: string, name: string, more: Html = ''): Html =>
  html`<input type="checkbox" name="id" value="${id}" aria-label="Choose ${name}" !${more} />`;

const isShown = ({ name, isOptional }: RecordColumn<never>, { columns }: View): boolean =>
  columns.length > 0 ? columns.includes(name) : !isOptional;

/**
 * Returns the current order of a column and the link that changes it: first ascending, then descending, then newest
 * first.
 */
function sorting(path: string, view: View, { sort }: RecordColumn<never>) {
  if (sort === undefined) return undefined;
  const now = view.sort === sort ? 'ascending' : view.sort === `-${sort}` ? 'descending' : 'none';
  const next = { none: sort, ascending: `-${sort}`, descending: '' }[now];
  return { path: addressOf(path, { ...view, sort: next }), now } as const;
}

function none(kind: RecordKind, view: View, all: Record<string, string | undefined> = {}): Html {
  const { path, title, noun, advice, picture, searched } = kind;
  if (view.page > 1) return notice(`There are no more ${title.toLowerCase()}.`, 'plain');
  if (Object.keys(view.values).length > 0) {
    const clear = linkButton('Show all', pathWith(path, all), 'secondary outline');
    const looks = view.values['search'] === undefined ? '' : `The search looks at ${searched}. `;
    return empty(`No ${noun} matches`, `${looks}Search for less, or take a filter away.`, 'search', clear);
  }
  return empty(`No ${title.toLowerCase()} yet`, advice, picture, linkButton('Import a file', importPath(kind)));
}

const objects: readonly ViewObject[] = ['contacts', 'companies', 'opportunities'];

const maxName = 60;

const maxQueryLength = 2_000;

const Given = Type.Object({ name: Type.String({ minLength: 1, maxLength: maxName }) });

export function savedViews(app: FastifyInstance): void {
  formRoutes(app, '/views/new', forMembers, {
    show: showNew,
    act: async (request) => {
      const fields = fieldsOf(request);
      const object = objectIn(fields);
      const query = withoutNotice(text(fields, 'query')).toString();
      const name = text(fields, 'name').trim();
      const tooLong = { path: '', message: 'this view has too long filters to be saved' };
      requireValid(Given, { name }, query.length > maxQueryLength ? [tooLong] : []);
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
    act: async (request, { id, object }) => {
      await write(request, deleteView, id);
      return `/app/${object}`;
    },
  });
}

const pathOf = ({ object, query }: Pick<SavedView, 'object' | 'query'>): string =>
  `/app/${object}${query === '' ? '' : `?${query}`}`;

function objectIn(fields: Fields): ViewObject {
  const object = objects.find((one) => one === text(fields, 'object'));
  return required(object, 'table');
}

const viewsOf = (request: FastifyRequest): Promise<SavedView[]> =>
  lookUp(request, listSavedViews, request.caller.userId);

/** Returns the name of the saved view or the list that the parameters of a request show, else that of the table. */
export async function nameOfView(request: FastifyRequest, kind: RecordKind): Promise<string> {
  const shown = viewOf(kind, queryOf(request));
  const query = parametersOf(shown).toString();
  const view = (await viewsOf(request)).find((one) => one.object === kind.object && one.query === query);
  const lists = await listChoices(request, shown.values['list']);
  return view?.name ?? lists.find(({ id }) => id === shown.values['list'])?.name ?? kind.title;
}

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
  const more = html`maxlength="${maxName}" autocomplete="off" required`;
  return {
    title: 'Save this view',
    section: `/app/${object}`,
    body: html`!${hidden({ object, query })}
    !${input('name', 'Name', { hint: 'A view of yours with this name is replaced.', more })}
    !${choice('for', 'Who sees it', { me: 'only me', all: 'everybody here' })}
    !${buttons('Save the view', pathOf({ object, query }))}`,
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
  const isSaved = views.some(({ query }) => query === now);
  const save = dialogLink('Save this view', pathWith('/app/views/new', { object, query: now }));
  return html`<ul class="chips views" aria-label="Saved views">
    !${views.map((view) => html`<li>!${viewLink(request, view, view.query === now)}</li>`)}
    !${now === '' || isSaved ? '' : html`<li>!${save}</li>`}
  </ul>`;
}

function viewLink(request: FastifyRequest, view: SavedView, isCurrent: boolean): Html {
  const link = html`<a href="${pathOf(view)}" !${when(isCurrent, 'aria-current="true"')}>${view.name}</a>`;
  if (!isCurrent) return link;
  const remove = dialogLink('×', `/app/views/${view.id}/delete`, `Delete the view ${view.name}`);
  return html`<strong>!${link}</strong> !${when(isDeletable(request, view), remove)}`;
}
