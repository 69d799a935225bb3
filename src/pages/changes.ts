import type { FastifyInstance, FastifyRequest } from 'fastify';
import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError } from '../errors.ts';
import { cursorFault } from '../filters/cursor.ts';
import { startUndo, tryUndo, undoerOf } from '../jobs/undo.ts';
import { findChange, listChanges, isUndoable } from '../queries/history/history.ts';
import { findNamedRecords, listDeletions, type NamedRecord } from '../queries/history/timeline.ts';
import { findReason, requireJobView } from '../queries/jobs/jobs.ts';
import { listApiKeys } from '../queries/accounts/api-keys.ts';
import { listUsers } from '../queries/accounts/users.ts';
import type { User } from '../schemas/accounts.ts';
import { eventNouns, type Change, type ChangeSummary, type EventActor, type EventNoun } from '../schemas/events.ts';
import type { Detail } from '../schemas/opportunities.ts';
import { allJobs, finalStatuses } from '../schemas/jobs.ts';
import type { PhoneNumber } from '../files/phones.ts';
import { canonicalId } from '../text/ids.ts';
import { memberDeletes, forMembers, addPage, backPath, question, listPage, jobPath } from './base/layout.ts';
import { cursorPager, filters, filterChoice } from './base/forms.ts';
import { once, lookUp, idOf, isAdmin, queryText, required, ask, passing } from './base/requests.ts';
import { when, plainList, linkButton, html, factCard, link, dayMs, moment, day, count, counted } from './base/html.ts';
import { pathWith, table, twoLines, type Html, type Column } from './base/html.ts';
import { countryName, fieldWord, isAmount, phoneNumber, plain, priorityWords, reasonWord } from './base/words.ts';

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
    const query = { filters: { since, ...(by && { actor_id: by }) }, before: place?.position, limit: 50 };
    const page = await listDeletions(request.db, customerId, query);
    const next = page.next === undefined ? undefined : signer.encode(customerId, { position: page.next, id: null });
    const [users, keys] = await Promise.all([lookUp(request, listUsers), lookUp(request, listApiKeys)]);
    const takeBack = { restored: 'restored since', merged_since: 'restore first what it was merged into', open: '' };
    const columns: readonly Column<(typeof page.deletions)[number]>[] = [
      ['Record', deletedName],
      ['Deleted', (one) => moment(one.occurred_at)],
      ['By', (one) => whoOf(one.actor, users)],
      ['Take back', (one) => takeBack[one.state] || restoreLink(one)],
    ];
    const people = users.map(({ id, name }) => [id, name] as const);
    const programs = keys.map(({ id, name }) => [id, `key ${name}`] as const);
    return listPage({
      title: 'Deleted',
      label: 'Deleted records',
      section,
      above: html`<p>
          What was deleted in the last ${days} days. Each record can be restored alone, or all that were deleted
          together.
        </p>
        !${filters(section, filterChoice('by', 'By', [['', 'anybody'], ...people, ...programs], by))}`,
      columns,
      rows: page.deletions,
      none:
        by !== '' || cursor !== ''
          ? ['Nothing found', 'They deleted nothing that stands here.']
          : ['Nothing deleted', 'Records that somebody deletes stand here, and can be restored.'],
      below: cursorPager(request, next),
    });
  });

  addPage(app, '/changes/:id', forMembers, async (request) => {
    const change = await requireChange(request);
    const [users, origin] = await Promise.all([
      lookUp(request, listUsers),
      change.undo_of && ask(request, findChange, eventNouns, change.undo_of),
    ]);
    const path = `/app/changes/${change.id}`;
    const counts = countsText(change, (words, noun) => link(words, `${path}?object=${noun}`));
    return {
      title: 'What one change has done',
      section,
      actions: undoButton(change),
      body: html`!${factCard([
        ['When', moment(change.occurred_at)],
        ['By', whoOf(change.actor, users)],
        ['What', counts],
        ['It took back', origin && link(`what ${countsText(origin)}`, `/app/changes/${origin.id}`)],
        ...change.undone_by.map((id) => ['Taken back by', link('a job', `/app/jobs/${id}`)] as const),
      ])}
      !${await recordsOf(request, change, users)}`,
    };
  });

  question(app, '/changes/:id/undo', forMembers, {
    about: requireUndo,
    title: ({ one }) => (one?.type === 'deleted' ? 'Restore' : 'Undo'),
    section: () => section,
    text: ({ change, one }, request) => (one ? textOfOne(change, one) : textOfAll(change, request)),
    back: backOf,
    tone: '',
    act: async (request, undone) => {
      const { change, one } = undone;
      const job = await once(request, (sql) => startUndo(sql, undoerOf(request.caller), change.id, one?.record_id));
      const back = backOf(undone, request);
      // The page of a record that the undo deletes is gone.
      const deletes = one ? one.type === 'created' : Object.values(change.counts).some(({ created }) => created > 0);
      const isSeen = job && !deletes && (await isTakenBackSoon(request, job.id).catch(passing('unavailable', false)));
      return isSeen ? pathWith(back, { done: 'undone' }) : jobPath(job, { back });
    },
  });
}

/** Returns a page of the records that a change has written, with what it did to each. */
async function recordsOf(request: FastifyRequest, { id, undo_of }: ChangeSummary, users: readonly User[]) {
  const object = eventNouns.find((noun) => noun === queryText(request, 'object'));
  const cursor = queryText(request, 'cursor');
  const before = /^\d{1,15}$/.test(cursor) ? Number(cursor) : undefined;
  const filters = { change_id: id, ...(object && { object }) };
  const { changes, next } = await ask(request, listChanges, eventNouns, { filters, before, limit: 50 });
  const wanted = changes.flatMap((one) =>
    [one.record_id, one.merged_into ?? []].flat().map((record) => [one.object, record] as const),
  );
  const names = await namedRecords(request, [...wanted, ...companiesIn(changes)]);
  const linked = (record: string, name: string): Html => {
    const found = names.get(record);
    return found ? recordLink(found) : html`${name}`;
  };
  const columns: readonly Column<Change>[] = [
    ['Record', (one) => twoLines(linked(one.record_id, nameAt(one, one.type === 'deleted' ? 0 : 1)), one.object)],
    [
      'What',
      (one) => {
        if (one.merged_into !== undefined) return html`merged into !${linked(one.merged_into, 'another')}`;
        const wordIn = (field: string): string => wordOf(one.object, field);
        if (one.type === 'updated') return changeText(one, { id: one.record_id, wordOf: wordIn, users, names });
        return undo_of && one.type === 'created' ? 'restored' : one.type;
      },
      'long',
    ],
  ];
  const title = object ? plain(plurals[object]) : 'Records';
  return html`<h2>!${title}</h2>
    !${when(object, html`<p>!${link('Show all records', `/app/changes/${id}`)}</p>`)} !${table(title, columns, changes)}
    !${cursorPager(request, next?.toString())}`;
}

/** Waits at most 2 seconds for the job of an undo. Returns true if the job has taken back everything by then. */
async function isTakenBackSoon(request: FastifyRequest, jobId: string): Promise<boolean> {
  for (let left = 40; left > 0; left -= 1) {
    const { status, total, succeeded } = await lookUp(request, requireJobView, jobId, allJobs);
    if ((finalStatuses as readonly string[]).includes(status))
      return status === 'COMPLETED' && succeeded === total && (await lookUp(request, findReason, jobId)).length === 0;
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
  return required(await ask(request, findChange, eventNouns, idOf(request, 'change')), 'change');
}

interface Undone {
  change: ChangeSummary;
  /** What the change did to one record, if the undo is limited to it. */
  one?: Change | undefined;
}

function backOf({ change, one }: Undone, request: FastifyRequest): string {
  const recordPath = one && (one.type === 'deleted' ? section : `${listPathOf(one.object)}/${one.record_id}`);
  return backPath(request, recordPath ?? `/app/changes/${change.id}`);
}

async function requireUndo(request: FastifyRequest): Promise<Undone> {
  const change = await requireChange(request);
  const record = queryText(request, 'record');
  if (record === '') {
    requireAdminFor(request, change);
    return { change };
  }
  const filters = { change_id: change.id, record_id: required(canonicalId(record), 'record') };
  const { changes } = await ask(request, listChanges, eventNouns, { filters, limit: 1 });
  return { change, one: required(changes[0], 'change') };
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
      This !${countsText(change)}. The undo takes back
      ${restored === records ? 'all of it' : `${count(restored)} of ${counted(records, 'record')}`}.
      ${counts.kept > 0 ? `Something stays as it is in ${counted(counts.kept, 'record')}.` : ''} You can undo the undo,
      too, except after a merge.
    </p>
    !${when(lines.length > 0, plainList(lines, ''))}`;
}

export const wordOf = (noun: EventNoun, name: string): string =>
  noun === 'list' || noun === 'activity' ? plain(name) : fieldWord(plurals[noun], name);

function textOfOne({ id, counts }: ChangeSummary, one: Change): Html {
  const sums = Object.values(counts).map(({ created, updated, deleted }) => created + updated + deleted);
  const others = sums.reduce((sum, number) => sum + number) - 1;
  const label = `${one.type === 'deleted' ? 'Restore' : 'Undo'} ${counted(others, 'other record')} of this change, too`;
  return html`!${undoTexts[one.type](one)} !${when(others > 0, link(label, `/app/changes/${id}/undo`))}`;
}

const undoTexts: Readonly<Record<Change['type'], (change: Change) => Html>> = {
  created: ({ object }) => html`This ${object} is deleted, unless it was changed since.`,
  updated: ({ object }) => html`This ${object} gets back what it had before this change. What was changed since stays.`,
  deleted: (change) =>
    html`<strong>${oldNameOf(change)}</strong> stands again, with its lists and everything else that still exists.`,
};

const undoButton = ({ id, undoable }: Pick<ChangeSummary, 'id' | 'undoable'>, label = 'Undo'): Html =>
  undoable ? linkButton(label, `/app/changes/${id}/undo`, 'secondary outline', 'data-dialog') : '';

export async function undoOf(request: FastifyRequest, id: string, label: string): Promise<Html> {
  const undoable = await lookUp(request, isUndoable, id);
  return undoButton({ id, undoable }, label);
}

/** @param shown returns how the number of records of a kind is shown */
function countsText({ counts }: ChangeSummary, shown = (words: string, _noun: EventNoun): Html => words): Html {
  const verbs = (['created', 'updated', 'deleted'] as const).map((verb) => {
    const some = eventNouns.filter((noun) => counts[noun]?.[verb]);
    const parts = some.map((noun) => shown(counted(counts[noun]![verb], noun, plurals[noun]), noun));
    return when(parts.length > 0, `${verb} ${parts.join(' and ')}`);
  });
  return verbs.filter(Boolean).join(', ');
}

const deletedName = (change: Change): Html =>
  html`${oldNameOf(change)}
    <span class="quiet">${change.merged_into === undefined ? change.object : `${change.object}, merged`}</span>`;

const restoreLink = ({ fields, change_id, record_id }: Change): Html =>
  Object.keys(fields).length === 0
    ? 'removed for good'
    : html`<a href="/app/changes/${change_id}/undo?record=${record_id}" data-dialog>Restore</a>`;

const listPathOf = (noun: EventNoun): string => `/app/${plurals[noun]}`;

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
  ask(request, findNamedRecords, wanted);

export const recordLink = ({ noun, record }: NamedRecord): Html =>
  link(nameOf(noun, record), `${listPathOf(noun)}/${record.id}`);

/** @param at which of the values of each field: 0 those before the change, 1 those after it */
const nameAt = ({ object, fields }: Change, at: 0 | 1): string =>
  nameOf(object, Object.fromEntries(Object.entries(fields).map(([name, values]) => [name, values[at]])));

export const oldNameOf = (change: Change): string => nameAt(change, 0);

const actors = { key: 'An API key', operator: 'The operator', service: 'The service' };

export function whoOf(actor: EventActor | null, users: readonly User[]): Html {
  if (actor?.type !== 'user') return actors[actor?.type ?? 'service'];
  return html`${users.find(({ id }) => id === actor.id)?.name ?? actor.name ?? 'A user'}`;
}

export interface Telling {
  id: string;
  wordOf: (field: string) => string;
  users: readonly User[];
  stages?: ReadonlyMap<unknown, string>;
  names?: ReadonlyMap<string, NamedRecord>;
}

export const verbs = { created: 'created', updated: 'changed', deleted: 'deleted' } as const;

export function companiesIn(changes: readonly Change[]): (readonly ['company', string])[] {
  const ids = changes.flatMap(({ fields: { company = [] } }) => company as unknown[]);
  return ids.filter((id) => typeof id === 'string').map((id) => ['company', id]);
}

export function changeText(change: Change, telling: Telling): Html {
  if (change.type === 'updated') return fieldsText(change, telling);
  if (change.record_id !== telling.id) return html`merged <strong>${oldNameOf(change)}</strong> into it`;
  return html`${change.type} it${change.merged_into === undefined ? '' : ' by a merge'}`;
}

function fieldsText({ fields }: Change, telling: Telling): Html {
  const lines = Object.entries(fields).map(([name, values]) => {
    const [before, after] = values.map((value) => valueText(name, value, telling));
    // The value of an opportunity tells its amount, and its products do not.
    if (name === 'details' && before === after) return '';
    return html`<span class="line">${telling.wordOf(name)}: !${before} → !${after}</span>`;
  });
  return lines.join('');
}

const priceText = (price: number): string => price.toLocaleString('en-GB', { maximumFractionDigits: 4 });

const userText: FieldText = (id, { users }) => users.find((user) => user.id === id)?.name ?? 'a user';

type FieldText = (value: never, telling: Telling) => string;

const valueTexts: Readonly<Record<string, FieldText>> = {
  location_country: (code: string) => countryName(code),
  assigned_to: userText,
  user_id_assigned: userText,
  contacts_ids: (ids: unknown[]) => counted(ids.length, 'contact'),
  details: (lines: Detail[]) =>
    lines
      .filter((line) => !isAmount(line))
      .map(({ name, quantity, price }) => `${quantity} × ${name} at ${priceText(price)}`)
      .join(', '),
  price: priceText,
  phone_numbers: (phones: PhoneNumber[]) => phones.map(phoneNumber).join(', '),
  mobile_phone: (number: string) => phoneNumber({ country_code: '', number }),
  stage_id: (id, { stages }) => stages?.get(id) ?? 'a stage elsewhere',
  priority: (priority: keyof typeof priorityWords) => priorityWords[priority].word,
};

const nothing: Html = '<span class="quiet">–</span>';

function valueText(name: string, value: unknown, telling: Telling): Html {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) return nothing;
  if (name === 'company') {
    const company = telling.names?.get(asText(value));
    return company ? recordLink(company) : 'a deleted company';
  }
  if (name === 'estimated_closing_date' || name === 'close_date') return day(asText(value));
  const known = Object.hasOwn(valueTexts, name) ? valueTexts[name]!(value as never, telling) : undefined;
  const shown = known ?? (Array.isArray(value) ? value.map(asText).join(', ') : asText(value));
  return shown === '' ? nothing : html`${shown}`;
}

function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return Object.values(value).map(asText).join(' ');
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
