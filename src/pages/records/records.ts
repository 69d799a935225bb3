import { savedViews, pageRows, recordList, nameOfView, searchPage } from './record-list.ts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { forMembers, addAction, formRoutes, urlOf, memberDeletes, withUndo, jobPath } from '../base/layout.ts';
import { backPath, type FormPage } from '../base/layout.ts';
import { hidden, controlsFor, versionField } from '../base/forms.ts';
import { readForm, sentEarlier, fieldsOf, text, idsIn, queryOf, sentText, notSent } from '../base/requests.ts';
import { queryText, required, ask, passing, once, startOnce, priceFor, isAdmin } from '../base/requests.ts';
import { requireValid, customName, invalid, requireCurrent, type Fields, type Refused } from '../base/requests.ts';
import { idOf, lookUp, type Faults } from '../base/requests.ts';
import { when, facts, panel, workplace, pathWith, dialogLink, html, folded, buttons, pager } from '../base/html.ts';
import { quiet, moment, today, count, counted, someNames, linkButton, sideBySide, type Html } from '../base/html.ts';
import { verification, fieldWord, countryName, mailLink, phoneLink, webLink, customValue } from '../base/words.ts';
import { priceOf } from '../base/words.ts';
import { requestOf, viewOf, readInOrder, addressOf, parametersOf, listChoices, companyKind } from './kinds.ts';
import { contactKind, companyLink, peoplePath, type FormField, type RecordKind, type ShownRecord } from './kinds.ts';
import { editLinks, declaredFor, usersOf, inputsOf, recordEdit, fieldForm, ownGroup, type Input } from './editor.ts';
import { listHeading } from './lists.ts';
import { recordPage, workplaceOf } from './activities.ts';
import type { User } from '../../schemas/accounts.ts';
import { sendExport } from '../../plugins/responses.ts';
import { addMembers, removeMembers } from '../../queries/crm/list-members.ts';
import { conflict, DomainError, forbidden } from '../../errors.ts';
import type { ExportFormat } from '../../schemas/files.ts';
import { canonicalId } from '../../text/ids.ts';
import { maxBatchItems } from '../../schemas/batches.ts';
import { statuses } from '../../plugins/error-handler.ts';
import type { Transaction } from '../../database/db.ts';
import { createList, findList } from '../../queries/crm/lists.ts';
import type { Batch } from '../../queries/records/batches.ts';
import { withDeferredWrites } from '../../queries/records/deferred-writes.ts';
import { findSuccessors } from '../../queries/records/merged-records.ts';
import type { ContactDetail } from '../../schemas/contacts.ts';
import { ListCreate } from '../../schemas/lists.ts';

function recordView(app: FastifyInstance, kind: RecordKind): void {
  const { path, noun } = kind;
  recordPage(app, `${path.replace('/app', '')}/:id`, async (request, given) => {
    const list = listBefore(request, kind);
    if (list !== queryText(request, 'in')) return pathWith(urlOf(request), { in: list });
    const id = idOf(request, noun);
    const [asked] = await lookUp(request, kind.find, [id]);
    const successor = asked ? id : required((await lookUp(request, findSuccessors, [id])).get(id), noun);
    if (!asked && request.method !== 'POST') return pathWith(`${path}/${successor}`, { done: 'replaces' });
    const merged = `Somebody has merged the ${noun} into this one meanwhile. Press the button again to save it here.`;
    const refused = asked ? given : { faults: { '': merged }, status: statuses.conflict };
    const found = asked ?? required((await lookUp(request, kind.find, [successor]))[0], noun);
    const [users, declared] = await Promise.all([usersOf(request), declaredFor(request, kind)]);
    const inputs = await inputsOf(request, kind, found, declared);
    const values = valuesOf(inputs, found, users);
    const here = `${path}/${found.id}`;
    const edit: EditLink = (group, label, spoken) =>
      dialogLink(label, pathWith(`${here}/edit`, { group, in: list }), spoken);
    const [beside, related, happened] = await Promise.all([
      neighbourLinks(request, kind, found.id, list)
        .catch(passing('validation_failed', ''))
        .catch(passing('payload_too_large', '')),
      kind.related(request, found),
      workplaceOf(request, {
        id: found.id,
        path: pathWith(here, { in: list }),
        refused,
        ...kind.workplace(found),
        telling: { wordOf: (name) => fieldWord(kind.object, name, declared), users },
      }),
    ]);
    const origin = panel('About this record', facts(originOf(kind, found)));
    return {
      status: refused.status,
      title: kind.nameOf(found),
      lead: kind.head
        .filter((name) => values.has(name))
        .map((name) => html`!${when(name === 'assigned_to', 'owner: ')}!${values.get(name)!}`)
        .join(' · '),
      actions: html`!${beside} !${linkButton('Merge', mergeListAddress(kind, found), 'secondary outline')}
      !${editLinks(here, list)}`,
      done: {
        listed: 'Its lists are changed.',
        merged: 'They are merged.',
        replaces: `The ${noun} that you opened was merged into this one.`,
      },
      body: workplace(happened, `About this ${noun}`, related + groupsOf(inputs, values, edit) + origin),
    };
  });
}

/** Returns what the service knows of a record, which no form changes. */
function originOf({ object }: RecordKind, found: ShownRecord) {
  const { verification_status: status, last_verified, score, created_at, updated_at } = found;
  const { crm_synced_at } = found as Partial<ContactDetail>;
  const values = {
    verification_status: verification(status),
    last_verified: moment(status === 'unverified' ? null : last_verified, 'never'),
    score: String(score),
    ...(crm_synced_at !== undefined && { crm_synced_at: moment(crm_synced_at, 'never') }),
    created_at: moment(created_at),
    updated_at: moment(updated_at),
  };
  return Object.entries(values).map(([name, value]) => [fieldWord(object, name), value] as const);
}

/** Returns the address of a list in which the user chooses with what to merge a record, which is chosen there. */
const mergeListAddress = ({ path, likely }: RecordKind, found: ShownRecord): string =>
  pathWith(path, { like: likely(found).slice(0, 5).join('; '), id: found.id, done: 'few' });

/**
 * Returns the parameters of the list from which the user came to a record, and through which the user goes on after a
 * form of the record's page. Empty: the user came from elsewhere.
 */
function listBefore(request: FastifyRequest, { path }: RecordKind): string {
  const { referer = '' } = request.headers;
  const given = queryText(request, 'in');
  if (given !== '' || request.method === 'POST' || !URL.canParse(referer)) return given;
  const { pathname, search, searchParams } = new URL(referer);
  if (pathname === path) return search.length > maxListLength ? '' : search.slice(1) || 'sort=';
  return pathname === urlOf(request).split('?')[0] ? (searchParams.get('in') ?? '') : '';
}

const maxListLength = 2_000;

async function neighbourLinks(request: FastifyRequest, kind: RecordKind, id: string, given: string): Promise<Html> {
  if (given === '') return '';
  const view = viewOf(kind, readForm(given));
  const { rows } = await ask(request, kind.list, requestOf(kind, view, pageRows));
  const at = rows.findIndex((row) => row.id === id);
  if (at === -1 || rows.length === 1) return '';
  const pathOf = (row: ShownRecord | undefined) => row && pathWith(`${kind.path}/${row.id}`, { in: given });
  return pager({ previous: pathOf(rows[at - 1]), next: pathOf(rows[at + 1]) }, 'In the list');
}

type Values = ReadonlyMap<string, Html>;

function valuesOf(inputs: readonly Input[], found: ShownRecord, users: readonly User[]): Values {
  const own = Object.entries(found.custom_fields).map(([key, value]) => [customName(key), customValue(value)] as const);
  const filled = inputs.filter(({ group, saved }) => group !== ownGroup && saved !== '');
  return new Map([...own, ...filled.map((one) => [one.name, valueOf(one, one.saved, found, users)] as const)]);
}

export function valueOf({ name, control }: FormField, given: string, found: ShownRecord, users: readonly User[]): Html {
  if (control === 'company') return companyLink(found);
  if (control === 'country') return html`${countryName(given)}`;
  if (control === 'user') return html`${users.find(({ id }) => id === given)?.name ?? given}`;
  if (control === 'email') return mailLink(given);
  if (control === 'url') return webLink(given);
  if (control === 'lines') return given.split('\n').map(mailLink).join(', ');
  if (control === 'phones' || name === 'mobile_phone') return given.split('\n').map(phoneLink).join(', ');
  return html`${given}`;
}

/** Returns a link that opens the form of one group of fields. */
type EditLink = (group: string, label: string, spoken?: string) => Html;

function groupsOf(fields: readonly FormField[], values: Values, edit: EditLink): Html {
  const groups = Object.entries(Object.groupBy(fields, ({ group }) => group)).map(([group, members]) => {
    const filled = members!.map(({ name, label }) => [label, values.get(name)] as const);
    if (filled.every(([, value]) => value === undefined)) return '';
    return panel(group, facts(filled), edit(group, 'Edit', `Edit: ${group}`));
  });
  const empty = fields.filter(({ name }) => !values.has(name)).map(({ label, group }) => edit(group, label));
  const others = folded(counted(empty.length, 'empty field'), html`<p>!${empty.join(', ')}</p>`);
  return html`!${groups} !${when(empty.length > 0, others)}`;
}

export async function records(app: FastifyInstance): Promise<void> {
  addPages(app, contactKind, listHeading);
  addPages(app, companyKind);
  savedViews(app);
  searchPage(app);

  // Adds contacts to a list by hand, or takes them out.
  addAction(app, '/contacts/lists', forMembers, async (request) => {
    const fields = fieldsOf(request);
    const list_id = required(canonicalId(text(fields, 'list_id')), 'list');
    // An undo names contacts that others can have deleted meanwhile.
    const contacts = await readInOrder(request, contactKind, idsIn(fields, 'id', maxBatchItems));
    const members = { list_id, contact_ids: contacts.map(({ id }) => id) };
    const change = text(fields, 'do') === 'remove' ? removeMembers : addMembers;
    await once<unknown>(request, (sql) => change(sql, request.caller.customerId, members));
    return backPath(request, `/app/lists/${list_id}`);
  });
}

function addPages(app: FastifyInstance, kind: RecordKind, headingOf?: typeof listHeading): void {
  recordList(app, kind, headingOf);
  recordEdit(app, kind);
  recordView(app, kind);
  chosen(app, kind);
  exporting(app, kind);
}

function exporting(app: FastifyInstance, kind: RecordKind): void {
  const config = { ...forMembers.config, isLong: true, concurrent: 'exports' } as const;
  app.get(`${kind.path.replace('/app', '')}/export`, { ...forMembers, config }, async (request, reply) => {
    const format: ExportFormat = queryText(request, 'format') === 'csv' ? 'csv' : 'xlsx';
    const { paginate: _paginate, ...asked } = requestOf(kind, viewOf(kind, queryOf(request)), 1);
    const found = kind.exported(request.db, request.caller.customerId, asked);
    const readable = { format, fields: 'readable', isForPeople: true } as const;
    const name = (await nameOfView(request, kind)).replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, ' ').trim() || kind.title;
    return sendExport(request, reply.header('cache-control', 'no-store'), found, readable, `${name} ${today()}`);
  });
}

const namesShown = 12;

const maxCompared = 5;

/** Maximum length of the address of a list in which records are chosen. It leaves room for the ids of an undo. */
const maxViewLength = 4_000;

/** Maximum number of companies whose contacts can be shown together. A filter takes no more values. */
const maxEmployers = 100;

/**
 * Adds the pages that act on chosen records of a list. A page asks the user to confirm the number of records. It asks
 * again if other records match when the form is sent.
 */
export function chosen(app: FastifyInstance, kind: RecordKind): void {
  const { path } = kind;
  const route = `${path.replace('/app', '')}/chosen`;

  formRoutes(app, route, forMembers, {
    show: showChosen,
    act: async (request) => {
      const act = actNamed(request, kind, text(choiceOf(request), 'do'));
      const rows = await findChosen(request);
      // The form that was sent before has deleted these records, or taken all out of the list that is shown.
      const isSent = rows.length === 0 && (await sentEarlier(request)) === 'same';
      if (isSent && act.tone === 'danger') return deletedPage;
      if (rows.length === 0) return backTo(request, kind, isSent ? 'sent' : 'none');
      requireCurrent(request, idsOf(rows));
      return act.run(request, rows);
    },
  });

  async function findChosen(request: FastifyRequest): Promise<ShownRecord[]> {
    const fields = choiceOf(request);
    // Checked first: the address in which the list says what was done would be refused.
    if (backTo(request, kind).length > maxViewLength) throw invalid('these filters and columns are too long together');
    if (text(fields, 'all') === '') return readInOrder(request, kind, idsIn(fields, 'id', maxBatchItems));
    const query = requestOf(kind, { ...viewOf(kind, fields), page: 1, cursor: '' }, maxBatchItems + 1);
    const { rows } = await ask(request, kind.list, query);
    if (rows.length <= maxBatchItems) return rows;
    throw conflict(`At most ${count(maxBatchItems)} ${kind.title.toLowerCase()} can be changed at once`, []);
  }

  function compareChosen(fields: Fields): string {
    const view = viewOf(kind, fields);
    const id = text(fields, 'all') === '' && view.ids.length <= maxCompared ? view.ids.toSorted() : [];
    const list = pathWith(path, { ...Object.fromEntries(parametersOf(view)), id });
    return id.length < 2
      ? pathWith(list, { done: 'few' })
      : pathWith('/app/duplicates/compare', { by: kind.object, id, back: list });
  }

  async function showChosen(request: FastifyRequest, { faults }: Refused): Promise<FormPage | string> {
    const fields = choiceOf(request);
    const name = text(fields, 'do');
    if (name === 'merge') return compareChosen(fields);
    const rows = await findChosen(request);
    if (rows.length === 0 && request.method !== 'POST') return backTo(request, kind, 'none');
    if (name === 'people' && kind.object === 'companies') {
      if (rows.length > maxEmployers) throw invalid(`choose at most ${maxEmployers} companies`);
      return peoplePath(...rows.map(({ id }) => id));
    }
    const act = actNamed(request, kind, name);
    const label = kind.acts[name]!;
    return {
      title: `${label}: ${counted(rows.length, kind.noun, kind.title.toLowerCase())}`,
      ...(text(fields, 'list') !== '' && { section: '/app/lists' }),
      body: html`!${hidden({ choice: choiceText(request) })} !${versionField(idsOf(rows))}
        !${await act.controls(request, rows, faults)}
        <p class="quiet">!${someNames(rows.map(kind.nameOf), namesShown)}</p>
        !${buttons(label, backTo(request, kind), 'Back', { tone: act.tone ?? '', closes: '' })}`,
      attributes: 'data-once',
      isNarrow: true,
    };
  }
}

const idsOf = (rows: readonly ShownRecord[]): string[] => rows.map(({ id }) => id).toSorted();

/** Returns the address's query in which a list has named its view, the chosen records and the action. */
const choiceText = (request: FastifyRequest): string =>
  request.method === 'POST' ? sentText(request, 'choice') : (request.url.split('?')[1] ?? '');

const choiceOf = (request: FastifyRequest): Fields => readForm(choiceText(request));

/** Returns the path of the list in which records were chosen, with a message about `number` of them. */
const backTo = (request: FastifyRequest, kind: RecordKind, done = '', number = 0): string =>
  pathWith(addressOf(kind.path, viewOf(kind, choiceOf(request))), { done, n: number === 0 ? '' : String(number) });

export interface Act<Row extends ShownRecord = ShownRecord> {
  tone?: 'danger';
  controls(request: FastifyRequest, rows: readonly Row[], faults: Faults): Promise<Html>;
  run(request: FastifyRequest, rows: readonly Row[]): Promise<string>;
}

/**
 * Returns the action with this name for chosen records.
 * @throws DomainError `not_found` if these records have no such action; `forbidden` if it spends credits and the user
 * is not an admin
 */
export function actNamed(request: FastifyRequest, kind: RecordKind, name: string): Act {
  const ofContacts = {
    list: listing,
    out: takingOut,
    assign: setting(kind, ['assigned_to'], 'assigned'),
    verify: verifying,
  };
  const acts: Readonly<Record<string, Act>> = {
    ...(kind.object === 'contacts' && ofContacts),
    edit: setting(kind, kind.setTogether, 'edited'),
    delete: deletion(kind),
  };
  if (!Object.hasOwn(acts, name)) throw new DomainError('not_found', 'There is no such page');
  if (name === 'verify' && !isAdmin(request)) throw forbidden();
  return acts[name]!;
}

/** Writes all of these items, or none. Returns undefined if the form was sent before. */
function writeAll(request: FastifyRequest, kind: RecordKind, operation: 'update' | 'delete', items: Batch['items']) {
  const { customerId } = request.caller;
  const batch = { operation, match: 'id', isAtomic: true, items } as const;
  const write = (sql: Transaction) =>
    withDeferredWrites(sql, customerId, (deferred) => kind.write(sql, customerId, batch, deferred));
  return once(request, write);
}

/** Returns the action that sets some fields in all chosen records. What the form leaves empty stays as it is. */
function setting(kind: RecordKind, names: readonly string[], told: string): Act {
  const chosen = kind.fields.filter(({ name }) => names.includes(name));
  const fields = chosen.map((one) => ({ ...one, group: '', hint: '', isRare: false }));
  const { controls, bodyOf } = fieldForm({ fields, schemas: kind.schemas });
  // A select shows a choice that it does not know as “as it is now”.
  const selects = fields.filter(({ control }) => control === 'country' || control === 'user');
  const stored = Object.fromEntries(selects.map(({ name }) => [name, 'various']));
  return {
    controls: async (request, _rows, faults) => {
      const sent = { ...(fields.length === 1 && { assigned_to: request.caller.userId }), ...fieldsOf(request) };
      const form = await controls({ ...notSent, stored, sent, faults, isConflict: false }, request);
      return html`!${when(fields.length > 1, quiet('What you leave empty stays as it is.'))} !${form}`;
    },
    run: async (request, rows) => {
      const { body, faults } = await bodyOf(request, stored);
      if (Object.keys(body).length === 0) throw invalid('give at least one value');
      requireValid(kind.schemas.patch, body, faults);
      const items = rows.map(({ id }) => ({ id, ...body }));
      const done = await writeAll(request, kind, 'update', items);
      if (done === undefined) return backTo(request, kind, 'sent');
      const back = backTo(request, kind, told, rows.length);
      return done.some(({ status }) => status === 'updated') ? withUndo(request, back) : back;
    },
  };
}

const deletion = (kind: RecordKind): Act => ({
  tone: 'danger',
  controls: async () =>
    kind.object === 'contacts'
      ? html`<p>They will be deleted, and leave their lists and opportunities. This can be undone.</p>`
      : html`<p>
          They will be deleted. Their contacts and opportunities stay, without a company. This can be undone.
        </p>`,
  run: async (request, rows) => {
    if (rows.length > memberDeletes && !isAdmin(request))
      throw invalid(`only an admin deletes more than ${memberDeletes} at once`);
    const items = rows.map(({ id }) => ({ id }));
    const done = await writeAll(request, kind, 'delete', items);
    return done === undefined ? deletedPage : withUndo(request, backTo(request, kind, 'deleted', rows.length));
  },
});

/** Path of the page of deleted records. A form that deletes records leads there if it was sent twice. */
export const deletedPage = '/app/deleted';

const listing: Act<ContactDetail> = {
  controls: async (request, _rows, faults) => listControls(request, faults),
  run: async (request, rows) => {
    const contact_ids = rows.map(({ id }) => id);
    const added = await once(request, async (sql) => {
      const list_id = await chosenList(request, sql);
      const { ids } = await addMembers(sql, request.caller.customerId, { list_id, contact_ids });
      return pathWith(`/app/lists/${list_id}`, toldOf('added', ids));
    });
    return added ?? '/app/lists?done=sent';
  },
};

/**
 * Returns the parameters of an address whose page says how many contacts were put into a list, or taken out. Up to
 * `memberDeletes` contacts are named in it, so that the page can offer to undo it.
 */
const toldOf = (done: string, ids: readonly string[]) => ({
  done,
  n: String(ids.length),
  were: ids.length > memberDeletes ? '' : ids.join('.'),
});

/** Returns true if a form chooses a list or names a new one. */
export const namesList = (fields: Fields): boolean =>
  text(fields, 'list_id') !== '' || text(fields, 'name').trim() !== '';

/**
 * Returns the controls that choose a list or name a new one.
 * @param none label of the choice of no list. Empty: a list is required
 * @param stored id of the currently chosen list
 */
export async function listControls(request: FastifyRequest, faults: Faults, none = '', stored = ''): Promise<Html> {
  const fields = { ...queryOf(request), ...fieldsOf(request) };
  const chosen = 'list_id' in fields ? text(fields, 'list_id') : stored;
  const lists = await listChoices(request, chosen);
  const choices = [
    ...(none === '' ? [] : [['', none] as const]),
    ...lists.map(({ id, name }) => [id, name] as const),
    ['new', 'a new list'] as const,
  ];
  const { input, choice } = controlsFor({ list_id: chosen, name: text(fields, 'name') }, faults);
  return html`<fieldset>
    <legend>Put them into a list</legend>
    !${sideBySide(choice('list_id', 'List', choices), input('name', 'Or a new list, with this name'))}
  </fieldset>`;
}

/**
 * Returns the id of the list that a form chooses, or undefined if the form names a new list.
 * @throws DomainError `validation_failed` if the id or the name of a new list is not valid
 */
export function chosenListId(fields: Fields): string | undefined {
  const name = text(fields, 'name');
  const id = name.trim() === '' ? canonicalId(text(fields, 'list_id')) : undefined;
  if (id === undefined) requireValid(ListCreate, { name });
  return id;
}

/** Returns the id of the list that a form chooses. Creates the list if the form names a new one. */
export async function chosenList(request: FastifyRequest, sql: Transaction, source?: 'PROSPECT'): Promise<string> {
  const { customerId, userId } = request.caller;
  const fields = fieldsOf(request);
  const body = { name: text(fields, 'name') };
  return chosenListId(fields) ?? (await createList(sql, customerId, userId, body, source)).id;
}

const listIn = (request: FastifyRequest): string => required(canonicalId(text(choiceOf(request), 'list')), 'list');

const takingOut: Act = {
  controls: async (request) => {
    const list = required(await ask(request, findList, listIn(request), 1), 'list');
    const byRules = when(list.rules.length > 0, ' Those that match its rules stay in the list.');
    return html`<p>They leave <strong>${list.name}</strong> and stay contacts.!${byRules}</p>`;
  },
  run: async (request, rows) => {
    const members = { list_id: listIn(request), contact_ids: rows.map(({ id }) => id) };
    const out = await once(request, (sql) => removeMembers(sql, request.caller.customerId, members));
    return out ? pathWith(backTo(request, contactKind), toldOf('out', out.ids)) : backTo(request, contactKind, 'sent');
  },
};

const verifying: Act<ContactDetail> = {
  controls: async (request, rows) => {
    const body = { emails: emailsOf(rows) };
    const price = await priceFor(request, 'verify_email', body);
    return html`<p>
        Checks ${counted(price.matches, 'e-mail address', 'e-mail addresses')}, and stores the outcome with the
        contacts. Those that were checked within the last day are free.
      </p>
      !${priceOf(price)}`;
  },
  run: async (request, rows) =>
    jobPath(await startOnce(request, 'verify_email', { emails: emailsOf(rows), sync_crm: true })),
};

const emailsOf = (rows: readonly ContactDetail[]) =>
  rows
    .filter(({ work_email }) => work_email !== '')
    .map(({ work_email, id }) => ({ email: work_email, contact_id: id }));
