import type { FastifyInstance, FastifyRequest } from 'fastify';
import { DomainError, notFound } from '../errors.ts';
import { cursorFault } from '../filters/cursor.ts';
import { sessionOf } from '../plugins/auth.ts';
import { countUndo, startUndo, undoerOf } from '../jobs/undo.ts';
import { findChange, listChanges, isUndoable } from '../queries/history/history.ts';
import { listApiKeys } from '../queries/accounts/api-keys.ts';
import { listUsers } from '../queries/accounts/users.ts';
import type { ApiKey, User } from '../schemas/accounts.ts';
import { eventNouns } from '../schemas/events.ts';
import type { Change, ChangeQuery, ChangeSummary, EventActor, EventNoun } from '../schemas/events.ts';
import { canonicalId } from '../text/ids.ts';
import { forMembers, memberDeletes, questionRoutes, sendPage, type Confirmation } from './base/layout.ts';
import { filterChoice, idOf, once, queryOf, text } from './base/forms.ts';
import { counted, cursorPager, day, empty, facts, html, linkButton, moment, table, type Html } from './base/html.ts';

const section = '/app/deleted';

const dayMs = 24 * 60 * 60 * 1000;

export const plurals: Readonly<Record<EventNoun, string>> = {
  contact: 'contacts',
  company: 'companies',
  list: 'lists',
  product: 'products',
  opportunity: 'opportunities',
  activity: 'activities',
};

export async function changes(app: FastifyInstance): Promise<void> {
  app.get('/deleted', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const cursor = text(queryOf(request), 'cursor');
    const signer = await app.feedCursors();
    const place = cursor === '' ? undefined : signer.decode(caller.customerId, cursor);
    if (cursor !== '' && !place) throw cursorFault('is not a cursor of this list');
    const chosen = chosenOf(request);
    const page = await listChanges(db, caller.customerId, eventNouns, {
      filters: filtersOf(chosen),
      verb: 'deleted',
      before: place?.position,
      limit: 50,
    });
    const next =
      page.next === undefined ? undefined : signer.encode(caller.customerId, { position: page.next, id: null });
    const [users, keys] = await db.lookup((sql) =>
      Promise.all([listUsers(sql, caller.customerId), listApiKeys(sql, caller.customerId)]),
    );
    return sendPage(request, reply, {
      title: 'Deleted',
      section,
      body: html`<p>
          What was deleted in the last 90 days. Each record can be restored alone, or all that were deleted together.
        </p>
        !${filterForm(chosen, users, keys)}
        !${table(
          'Deleted records',
          [
            ['Record', deletedName],
            ['Deleted', (one) => moment(one.occurred_at)],
            ['By', (one) => whoOf(one.actor, users)],
            ['Take back', restoreLink],
          ],
          page.changes,
          Object.keys(chosen).length > 0 || cursor !== ''
            ? empty('Nothing found', 'Nothing here was deleted by them, or on these days.', '', 'search')
            : empty('Nothing deleted', 'Records that somebody deletes stand here, and can be restored.'),
        )}
        !${cursorPager(section, cursor, next, chosen)}`,
    });
  });

  app.get('/changes/:id', forMembers, async (request, reply) => {
    const change = await requireChange(request);
    const users = await request.db.lookup((sql) => listUsers(sql, request.caller.customerId));
    return sendPage(request, reply, {
      title: 'What one change has done',
      section,
      actions: undoButton(change),
      body: html`<div class="card">
        !${facts([
          ['When', moment(change.occurred_at)],
          ['By', whoOf(change.actor, users)],
          ['What', html`${countsText(change)}`],
          ...(change.undo_of === undefined
            ? []
            : [['It took back', html`<a href="/app/changes/${change.undo_of}">another change</a>`] as const]),
          ...change.undone_by.map((id) => ['Taken back by', html`<a href="/app/jobs/${id}">a job</a>`] as const),
        ])}
      </div>`,
    });
  });

  questionRoutes(app, '/changes/:id/undo', forMembers, {
    ask: async (request) => {
      const { db, caller } = request;
      const change = await requireChange(request);
      const record = recordOf(request);
      if (record !== undefined) return askAboutRecord(request, change, record);
      requireAdminFor(request, change);
      const { records, restored, kept } = await countUndo(db, undoerOf(caller), change.id);
      const rest = kept === 0 ? '' : ` Of ${counted(kept, 'record')}, something stays, because of what came since.`;
      return {
        title: 'Undo',
        section,
        text: html`This has ${countsText(change)}. Of ${counted(records, 'record')},
        ${restored === records ? 'all are' : counted(restored, 'record')} taken back.${rest} The undo can itself be
        undone, but for one of a merge.`,
        back: `/app/changes/${change.id}`,
        tone: '',
      };
    },
    act: async (request) => {
      const record = recordOf(request);
      const change = await requireChange(request);
      if (record === undefined) requireAdminFor(request, change);
      const job = await once(request, (sql) => startUndo(sql, undoerOf(request.caller), change.id, record));
      return job ? `/app/jobs/${job.id}` : '/app/jobs?done=sent';
    },
  });
}

/**
 * Rejects an undo that only an admin may start.
 * @throws DomainError `forbidden` if the undo would delete more records than this user may delete at once
 */
function requireAdminFor(request: FastifyRequest, { counts }: ChangeSummary): void {
  const created = Object.values(counts).reduce((sum, one) => sum + one.created, 0);
  if (created > memberDeletes && sessionOf(request).role !== 'admin')
    throw new DomainError('forbidden', `Only an admin takes back the creation of more than ${memberDeletes} records`);
}

async function requireChange(request: FastifyRequest): Promise<ChangeSummary> {
  const change = await findChange(request.db, request.caller.customerId, eventNouns, idOf(request, 'change'));
  if (!change) throw notFound('change');
  return change;
}

/**
 * Returns the record to which an undo is limited, or undefined if it undoes the whole change.
 * @throws DomainError `not_found` if the address names something else, so that a broken link does not undo the whole
 * change
 */
function recordOf(request: FastifyRequest): string | undefined {
  const given = text(queryOf(request), 'record');
  const id = canonicalId(given);
  if (given !== '' && id === undefined) throw notFound('record');
  return id;
}

async function askAboutRecord(request: FastifyRequest, change: ChangeSummary, record: string): Promise<Confirmation> {
  const filters = { change_id: change.id, record_id: record };
  const {
    changes: [found],
  } = await listChanges(request.db, request.caller.customerId, eventNouns, { filters, limit: 1 });
  if (!found) throw notFound('change');
  const path = `/app/changes/${change.id}/undo`;
  const others =
    Object.values(change.counts).reduce((sum, { created, updated, deleted }) => sum + created + updated + deleted, 0) -
    1;
  const verb = found.type === 'deleted' ? 'Restore' : 'Undo';
  const list = found.type === 'deleted' ? undefined : recordPaths[found.object];
  return {
    title: verb,
    section,
    text: html`!${undoTexts[found.type](found)}
    !${others > 0 ? html`<a href="${path}">${verb} ${counted(others, 'other record')} of this change, too</a>` : ''}`,
    back: list === undefined ? section : `${list}/${record}`,
    tone: '',
  };
}

const undoTexts: Readonly<Record<Change['type'], (change: Change) => Html>> = {
  created: ({ object }) => html`This ${object} is deleted, unless it was changed since.`,
  updated: ({ object }) => html`This ${object} gets back what it had before this change. What was changed since stays.`,
  deleted: (change) =>
    html`<strong>${oldNameOf(change)}</strong> stands again, with its lists and everything else that still exists.`,
};

function chosenOf(request: FastifyRequest): Record<string, string> {
  const query = queryOf(request);
  const day = (name: string) =>
    /^20\d\d-\d\d-\d\d$/.test(text(query, name)) && !Number.isNaN(Date.parse(text(query, name)))
      ? { [name]: text(query, name) }
      : {};
  const by = canonicalId(text(query, 'by'));
  return { ...(by && { by }), ...day('from'), ...day('to') };
}

/** Returns the filters of the list. Days are in UTC. */
const filtersOf = ({ by, from, to }: Record<string, string>): ChangeQuery['filters'] => ({
  ...(by && { actor_id: by }),
  ...(from && { since: `${from}T00:00:00.000Z` }),
  ...(to && { until: new Date(Date.parse(to) + dayMs).toISOString() }),
});

const filterForm = (chosen: Record<string, string>, users: readonly User[], keys: readonly ApiKey[]): Html =>
  html`<form class="filters" method="get" action="${section}">
    !${filterChoice(
      'by',
      'By',
      [
        ['', 'anybody'],
        ...users.map(({ id, name }) => [id, name] as const),
        ...keys.map(({ id, name }) => [id, `key ${name}`] as const),
      ],
      chosen['by'] ?? '',
    )}
    !${(['from', 'to'] as const).map(
      (name) =>
        html`<label
          >${name === 'from' ? 'From' : 'To'} <input type="date" name="${name}" value="${chosen[name] ?? ''}"
        /></label>`,
    )}
    <div class="filter-buttons"><button class="secondary">Show</button></div>
  </form>`;

const undoButton = ({ id, undoable }: Pick<ChangeSummary, 'id' | 'undoable'>, label = 'Undo'): Html =>
  undoable ? linkButton(label, `/app/changes/${id}/undo`, 'secondary outline', 'data-dialog') : '';

/**
 * Returns a button that undoes what a job or import has written. Returns an empty string if there is nothing to undo.
 */
export async function undoOf(request: FastifyRequest, id: string, label: string): Promise<Html> {
  const undoable = await request.db.lookup((sql) => isUndoable(sql, request.caller.customerId, id));
  return undoButton({ id, undoable }, label);
}

function countsText({ counts }: ChangeSummary): string {
  const verbs = (['created', 'updated', 'deleted'] as const).flatMap((verb) => {
    const parts = eventNouns.flatMap((noun) => {
      const number = counts[noun]?.[verb] ?? 0;
      return number === 0 ? [] : [counted(number, noun, plurals[noun])];
    });
    return parts.length === 0 ? [] : [`${verb} ${parts.join(' and ')}`];
  });
  return verbs.join(', ');
}

const deletedName = (change: Change): Html =>
  html`${oldNameOf(change)}
    <span class="quiet">${change.merged_into === undefined ? change.object : `${change.object}, merged`}</span>`;

const restoreLink = ({ fields, change_id, record_id }: Change): Html =>
  Object.keys(fields).length === 0
    ? 'removed for good'
    : html`<a href="/app/changes/${change_id}/undo?record=${record_id}" data-dialog>Restore</a>`;

/** Paths of lists of records. The page of a record is below the path of its list. */
export const recordPaths: Partial<Record<EventNoun, string>> = {
  contact: '/app/contacts',
  company: '/app/companies',
  list: '/app/lists',
  opportunity: '/app/opportunities',
  product: '/app/products',
  activity: '/app/activities',
};

export function nameOf(noun: EventNoun, record: object): string {
  const value = (name: string): string => asText((record as Record<string, unknown>)[name]);
  const person = `${value('first_name')} ${value('last_name')}`.trim();
  return (
    person ||
    value('name') ||
    value('company_name') ||
    value('title') ||
    value('work_email') ||
    value('body') ||
    `${noun === 'company' || noun === 'contact' ? `a ${noun}` : `an older ${noun}`} without a name`
  );
}

export const oldNameOf = ({ object, fields }: Change): string =>
  nameOf(object, Object.fromEntries(Object.entries(fields).map(([name, [before]]) => [name, before])));

export function whoOf(actor: EventActor | null, users: readonly User[]): Html {
  switch (actor?.type) {
    case 'user':
      return html`${users.find(({ id }) => id === actor.id)?.name ?? actor.name ?? 'a user'}`;
    case 'key':
      return html`an API key`;
    case 'operator':
      return html`the operator`;
    default:
      return html`the service`;
  }
}

export interface Telling {
  wordOf: (field: string) => string;
  users: readonly User[];
  stages?: ReadonlyMap<unknown, string>;
}

export const changeText = (change: Change, telling: Telling): Html =>
  change.type === 'updated'
    ? fieldsText(change, telling)
    : html`${change.type} it${change.merged_into === undefined ? '' : ' by a merge'}`;

const fieldsText = ({ fields }: Change, telling: Telling): Html =>
  html`!${Object.entries(fields).map(
    ([name, [before, after]]) =>
      html`<span class="line"
        >${telling.wordOf(name)}: !${valueText(name, before, telling)} → !${valueText(name, after, telling)}</span
      >`,
  )}`;

function valueText(name: string, value: unknown, { users, stages }: Telling): Html {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0))
    return html`<span class="quiet">–</span>`;
  if (name === 'company') return html`<a href="/app/companies/${asText(value)}">a company</a>`;
  if (name === 'assigned_to' || name === 'user_id_assigned')
    return html`${users.find(({ id }) => id === value)?.name ?? 'a user'}`;
  if (name === 'contacts_ids') return html`${counted((value as unknown[]).length, 'contact')}`;
  if (name === 'details') return html`${(value as Line[]).map((line) => `${line.quantity} × ${line.name}`).join(', ')}`;
  if (name === 'estimated_closing_date' || name === 'close_date') return day(asText(value));
  if (name === 'stage_id') return html`${stages?.get(value) ?? 'a stage elsewhere'}`;
  return html`${Array.isArray(value) ? value.map(asText).join(', ') : asText(value)}`;
}

interface Line {
  name: string;
  quantity: number;
}

function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return Object.values(value).map(asText).join(' ');
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
