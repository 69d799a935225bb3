import type { FastifyInstance, FastifyRequest } from 'fastify';
import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError, notFound } from '../errors.ts';
import { cursorFault } from '../filters/cursor.ts';
import { startUndo, tryUndo, undoerOf } from '../jobs/undo.ts';
import { findChange, listChanges, isUndoable } from '../queries/history/history.ts';
import { findNamedRecords, listDeletions, type NamedRecord } from '../queries/history/timeline.ts';
import { requireJobView } from '../queries/jobs/jobs.ts';
import { listApiKeys } from '../queries/accounts/api-keys.ts';
import { listUsers } from '../queries/accounts/users.ts';
import type { ApiKey, User } from '../schemas/accounts.ts';
import { eventNouns } from '../schemas/events.ts';
import type { Change, ChangeSummary, EventActor, EventNoun } from '../schemas/events.ts';
import { allJobs, finalStatuses } from '../schemas/jobs.ts';
import type { PhoneNumber } from '../files/phones.ts';
import { canonicalId } from '../text/ids.ts';
import { memberDeletes, forMembers, addPage, backPath, question } from './base/layout.ts';
import { cursorPager, filterChoice, showButton } from './base/forms.ts';
import { once, lookUp, idOf, isAdmin, queryText } from './base/requests.ts';
import {
  when,
  empty,
  table,
  facts,
  plainList,
  linkButton,
  pathWith,
  html,
  type Html,
  type Column,
} from './base/html.ts';
import { dayMs, moment, day, count, counted } from './base/values.ts';
import { countryName, fieldWord, phoneNumber, plain, priorityWords, reasonWord } from './base/words.ts';

const section = '/app/deleted';

export const plurals = {
  contact: 'contacts',
  company: 'companies',
  list: 'lists',
  product: 'products',
  opportunity: 'opportunities',
  activity: 'activities',
} as const satisfies Record<EventNoun, string>;

export async function changes(app: FastifyInstance): Promise<void> {
  addPage(app, '/deleted', forMembers, async (request) => {
    const { customerId } = request.caller;
    const cursor = queryText(request, 'cursor');
    const signer = await app.feedCursors();
    const place = cursor === '' ? undefined : signer.decode(customerId, cursor);
    if (cursor !== '' && !place) throw cursorFault('is not a cursor of this list');
    const by = canonicalId(queryText(request, 'by')) ?? '';
    const days = app.config.HISTORY_DAYS;
    const since = new Date(Date.now() - days * dayMs).toISOString();
    const filters = { since, ...(by && { actor_id: by }) };
    const page = await listDeletions(request.db, customerId, { filters, before: place?.position, limit: 50 });
    const next = page.next === undefined ? undefined : signer.encode(customerId, { position: page.next, id: null });
    const [users, keys] = await Promise.all([lookUp(request, listUsers), lookUp(request, listApiKeys)]);
    const takeBack = {
      restored: () => 'restored since',
      merged_since: () => 'restore first what it was merged into',
      open: restoreLink,
    };
    const columns: readonly Column<(typeof page.deletions)[number]>[] = [
      ['Record', deletedName],
      ['Deleted', (one) => moment(one.occurred_at)],
      ['By', (one) => whoOf(one.actor, users)],
      ['Take back', (one) => takeBack[one.state](one)],
    ];
    const none =
      by !== '' || cursor !== ''
        ? empty('Nothing found', 'They deleted nothing that stands here.')
        : empty('Nothing deleted', 'Records that somebody deletes stand here, and can be restored.');
    return {
      title: 'Deleted',
      section,
      body: html`<p>
          What was deleted in the last ${days} days. Each record can be restored alone, or all that were deleted
          together.
        </p>
        !${filterForm(by, users, keys)} !${table('Deleted records', columns, page.deletions, none)}
        !${cursorPager(request, next)}`,
    };
  });

  addPage(app, '/changes/:id', forMembers, async (request) => {
    const change = await requireChange(request);
    const users = await lookUp(request, listUsers);
    return {
      title: 'What one change has done',
      section,
      actions: undoButton(change),
      body: html`<div class="card">
        !${facts([
          ['When', moment(change.occurred_at)],
          ['By', whoOf(change.actor, users)],
          ['What', html`${countsText(change)}`],
          ['It took back', change.undo_of && html`<a href="/app/changes/${change.undo_of}">another change</a>`],
          ...change.undone_by.map((id) => ['Taken back by', html`<a href="/app/jobs/${id}">a job</a>`] as const),
        ])}
      </div>`,
    };
  });

  question(app, '/changes/:id/undo', forMembers, {
    about: requireUndo,
    title: ({ one }) => (one?.type === 'deleted' ? 'Restore' : 'Undo'),
    section,
    text: ({ change, one }, request) => (one ? textOfOne(change, one) : textOfAll(change, request)),
    back: backOf,
    tone: '',
    act: async (request) => {
      const undone = await requireUndo(request);
      const { change, one } = undone;
      const job = await once(request, (sql) => startUndo(sql, undoerOf(request.caller), change.id, one?.record_id));
      if (!job) return '/app/jobs?done=sent';
      const back = backOf(undone, request);
      // The page of a record that the undo deletes is gone.
      const deletes = one ? one.type === 'created' : Object.values(change.counts).some(({ created }) => created > 0);
      const isSeen = !deletes && (await isTakenBackSoon(request, job.id));
      return isSeen ? pathWith(back, { done: 'undone' }) : pathWith(`/app/jobs/${job.id}`, { back });
    },
  });
}

/** Waits at most 2 seconds for the job of an undo. Returns true if the job has taken back everything by then. */
async function isTakenBackSoon(request: FastifyRequest, jobId: string): Promise<boolean> {
  for (let left = 40; left > 0; left -= 1) {
    const { status, total, succeeded } = await lookUp(request, requireJobView, jobId, allJobs);
    if ((finalStatuses as readonly string[]).includes(status)) return status === 'COMPLETED' && succeeded === total;
    await sleep(50);
  }
  return false;
}

/**
 * Rejects an undo that would delete more records than this user may delete at once.
 * @throws DomainError `forbidden`
 */
function requireAdminFor(request: FastifyRequest, { counts }: ChangeSummary): void {
  const created = Object.values(counts).reduce((sum, one) => sum + one.created, 0);
  if (created > memberDeletes && !isAdmin(request))
    throw new DomainError('forbidden', `Only an admin takes back the creation of more than ${memberDeletes} records`);
}

async function requireChange(request: FastifyRequest): Promise<ChangeSummary> {
  const change = await findChange(request.db, request.caller.customerId, eventNouns, idOf(request, 'change'));
  if (!change) throw notFound('change');
  return change;
}

interface Undone {
  change: ChangeSummary;
  /** What the change did to one record, if the undo is limited to it. */
  one?: Change | undefined;
}

/** Returns the path of the page from which the undo was opened. */
function backOf({ change, one }: Undone, request: FastifyRequest): string {
  const recordPath = one && (one.type === 'deleted' ? section : `${recordPaths[one.object]}/${one.record_id}`);
  return backPath(request, recordPath ?? `/app/changes/${change.id}`);
}

/** Returns the change in the path of an undo. */
async function requireUndo(request: FastifyRequest): Promise<Undone> {
  const change = await requireChange(request);
  const record = queryText(request, 'record');
  if (record === '') {
    requireAdminFor(request, change);
    return { change };
  }
  const filters = { change_id: change.id, record_id: canonicalId(record) ?? '' };
  if (filters.record_id === '') throw notFound('record');
  const { changes } = await listChanges(request.db, request.caller.customerId, eventNouns, { filters, limit: 1 });
  if (!changes[0]) throw notFound('change');
  return { change, one: changes[0] };
}

async function textOfAll(change: ChangeSummary, request: FastifyRequest): Promise<Html> {
  const { counts, kept } = await tryUndo(request.db, undoerOf(request.caller), change.id);
  const { records, restored } = counts;
  const wanted = kept.map(({ noun, id }) => [noun, id] as const);
  const names = await namedRecords(request, wanted);
  const lines = kept.map(({ noun, id, reason, fields }) => {
    const record = names.get(id);
    const words = fields.map((name) => wordOf(noun, name)).join(', ');
    const why = reason ? reasonWord(reason) : 'changed since';
    return html`<span>!${record ? recordLink(record) : noun}: ${[words, why].filter(Boolean).join(' – ')}</span>`;
  });
  return html`<p>
      This ${countsText(change)}. The undo takes back
      ${restored === records ? 'all of it' : `${count(restored)} of ${counted(records, 'record')}`}.
      ${counts.kept > 0 ? `Something stays as it is in ${counted(counts.kept, 'record')}.` : ''} You can undo the undo,
      too, except after a merge.
    </p>
    !${when(lines.length > 0, plainList(lines, ''))}`;
}

export const wordOf = (noun: EventNoun, name: string): string =>
  noun === 'list' || noun === 'activity' ? plain(name) : fieldWord(plurals[noun], name);

function textOfOne({ id, counts }: ChangeSummary, one: Change): Html {
  const numbers = Object.values(counts).flatMap(({ created, updated, deleted }) => [created, updated, deleted]);
  const others = numbers.reduce((sum, number) => sum + number) - 1;
  const label = `${one.type === 'deleted' ? 'Restore' : 'Undo'} ${counted(others, 'other record')} of this change, too`;
  return html`!${undoTexts[one.type](one)} !${when(others > 0, html`<a href="/app/changes/${id}/undo">${label}</a>`)}`;
}

const undoTexts: Readonly<Record<Change['type'], (change: Change) => Html>> = {
  created: ({ object }) => html`This ${object} is deleted, unless it was changed since.`,
  updated: ({ object }) => html`This ${object} gets back what it had before this change. What was changed since stays.`,
  deleted: (change) =>
    html`<strong>${oldNameOf(change)}</strong> stands again, with its lists and everything else that still exists.`,
};

function filterForm(by: string, users: readonly User[], keys: readonly ApiKey[]): Html {
  const people = users.map(({ id, name }) => [id, name] as const);
  const programs = keys.map(({ id, name }) => [id, `key ${name}`] as const);
  return html`<form class="filters" method="get" action="${section}">
    !${filterChoice('by', 'By', [['', 'anybody'], ...people, ...programs], by)} !${showButton}
  </form>`;
}

const undoButton = ({ id, undoable }: Pick<ChangeSummary, 'id' | 'undoable'>, label = 'Undo'): Html =>
  undoable ? linkButton(label, `/app/changes/${id}/undo`, 'secondary outline', 'data-dialog') : '';

/** Returns a button that undoes what a job or import has written, or an empty string if there is nothing to undo. */
export async function undoOf(request: FastifyRequest, id: string, label: string): Promise<Html> {
  const undoable = await lookUp(request, isUndoable, id);
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

/** Paths of the lists of records. The page of a record is below its list's path. */
const recordPaths = Object.fromEntries(
  Object.entries(plurals).map(([noun, plural]) => [noun, `/app/${plural}`]),
) as Record<EventNoun, string>;

export function nameOf(noun: EventNoun, record: object): string {
  const value = (name: string): string => asText((record as Record<string, unknown>)[name]);
  const article = noun === 'company' || noun === 'contact' ? 'a' : 'an older';
  return (
    `${value('first_name')} ${value('last_name')}`.trim() ||
    ['name', 'company_name', 'title', 'work_email', 'body'].map(value).find((text) => text !== '') ||
    `${article} ${noun} without a name`
  );
}

export const namedRecords = (request: FastifyRequest, wanted: Parameters<typeof findNamedRecords>[2]) =>
  findNamedRecords(request.db, request.caller.customerId, wanted);

export const recordLink = ({ noun, record }: NamedRecord): Html =>
  html`<a href="${recordPaths[noun]}/${record.id}">${nameOf(noun, record)}</a>`;

export const oldNameOf = ({ object, fields }: Change): string =>
  nameOf(object, Object.fromEntries(Object.entries(fields).map(([name, [before]]) => [name, before])));

const actors = { key: 'An API key', operator: 'The operator', service: 'The service' };

export function whoOf(actor: EventActor | null, users: readonly User[]): Html {
  if (actor?.type !== 'user') return actors[actor?.type ?? 'service'];
  return html`${users.find(({ id }) => id === actor.id)?.name ?? actor.name ?? 'A user'}`;
}

export interface Telling {
  /** Id of the record whose changes are told. */
  id: string;
  wordOf: (field: string) => string;
  users: readonly User[];
  stages?: ReadonlyMap<unknown, string>;
  names?: ReadonlyMap<string, NamedRecord>;
}

export const verbs = { created: 'created', updated: 'changed', deleted: 'deleted' } as const;

export const companiesIn = (changes: readonly Change[]): (readonly ['company', string])[] =>
  changes.flatMap(({ fields: { company = [] } }) =>
    company.flatMap((id) => (typeof id === 'string' ? [['company', id] as const] : [])),
  );

export function changeText(change: Change, telling: Telling): Html {
  if (change.type === 'updated') return fieldsText(change, telling);
  if (change.record_id !== telling.id) return html`merged <strong>${oldNameOf(change)}</strong> into it`;
  return html`${change.type} it${change.merged_into === undefined ? '' : ' by a merge'}`;
}

const fieldsText = ({ fields }: Change, telling: Telling): Html =>
  html`!${Object.entries(fields).map(
    ([name, [before, after]]) =>
      html`<span class="line"
        >${telling.wordOf(name)}: !${valueText(name, before, telling)} → !${valueText(name, after, telling)}</span
      >`,
  )}`;

const userText: FieldText = (id, { users }) => users.find((user) => user.id === id)?.name ?? 'a user';

type FieldText = (value: never, telling: Telling) => string;

/** Texts for the values of fields that are ids, codes or lists of other things. */
const fieldTexts: Readonly<Record<string, FieldText>> = {
  location_country: (code: string) => countryName(code),
  assigned_to: userText,
  user_id_assigned: userText,
  contacts_ids: (ids: unknown[]) => counted(ids.length, 'contact'),
  details: (lines: { name: string; quantity: number }[]) =>
    lines.map(({ name, quantity }) => `${quantity} × ${name}`).join(', '),
  phone_numbers: (phones: PhoneNumber[]) => phones.map(phoneNumber).join(', '),
  mobile_phone: (number: string) => phoneNumber({ country_code: '', number }),
  stage_id: (id, { stages }) => stages?.get(id) ?? 'a stage elsewhere',
  priority: (priority: keyof typeof priorityWords) => priorityWords[priority].word,
};

function valueText(name: string, value: unknown, telling: Telling): Html {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0))
    return html`<span class="quiet">–</span>`;
  if (name === 'company') {
    const company = telling.names?.get(asText(value));
    return company ? recordLink(company) : 'a deleted company';
  }
  if (name === 'estimated_closing_date' || name === 'close_date') return day(asText(value));
  const known = Object.hasOwn(fieldTexts, name) ? fieldTexts[name]!(value as never, telling) : undefined;
  return html`${known ?? (Array.isArray(value) ? value.map(asText).join(', ') : asText(value))}`;
}

function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return Object.values(value).map(asText).join(' ');
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
