import type { FastifyInstance, FastifyRequest } from 'fastify';
import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError } from '../errors.ts';
import { startUndo, tryUndo, undoerOf } from '../jobs/undo.ts';
import { findChange, listChanges, sumChanges, type ToldChange } from '../queries/history/history.ts';
import { findTakenBack, isUndoable, type TakenBack } from '../queries/history/undo-state.ts';
import { findNamedRecords, listDeletions, type NamedRecord } from '../queries/history/timeline.ts';
import { findReason, requireJobView } from '../queries/jobs/jobs.ts';
import { listApiKeys } from '../queries/accounts/api-keys.ts';
import { listUsers } from '../queries/accounts/users.ts';
import type { User } from '../schemas/accounts.ts';
import { eventNouns, type Change, type EventActor, type EventNoun } from '../schemas/events.ts';
import type { Detail } from '../schemas/opportunities.ts';
import { recordScopes } from '../schemas/scopes.ts';
import { allJobs, type Job } from '../schemas/jobs.ts';
import type { PhoneNumber } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import { memberDeletes, forMembers, addPage, backPath, question, listPage, jobPath } from './base/layout.ts';
import { cursorPager, filters, filterChoice } from './base/forms.ts';
import { once, lookUp, idOf, isAdmin, positionIn, queryText, required, ask, passing } from './base/requests.ts';
import { when, plainList, linkButton, dialogLink, html, link, notice, quiet, dayMs, moment, day } from './base/html.ts';
import { readDay, count, counted, pathWith, table, twoLines, type Html, type Column } from './base/html.ts';
import { countryName, fieldWord, isAmount, phoneNumber, plain, priorityWords, reasonWord } from './base/words.ts';
import { verificationWords } from './base/words.ts';
import { isInstant } from '../schemas/formats.ts';

const section = '/app/deleted';

export const plurals = { ...recordScopes, list: 'lists' } as const satisfies Record<EventNoun, string>;

export async function changes(app: FastifyInstance): Promise<void> {
  addPage(app, '/deleted', forMembers, async (request) => {
    const before = positionIn(request);
    const by = canonicalId(queryText(request, 'by')) ?? '';
    const days = app.config.HISTORY_DAYS;
    const since = new Date(Date.now() - days * dayMs).toISOString();
    const query = { filters: { since, ...(by && { actor_id: by }) }, before, limit: 50 };
    const { deletions, next } = await ask(request, listDeletions, query);
    const [users, keys] = await Promise.all([lookUp(request, listUsers), lookUp(request, listApiKeys)]);
    const takeBack = { restored: 'restored since', merged_since: 'restore first what it was merged into', open: '' };
    const columns: readonly Column<(typeof deletions)[number]>[] = [
      ['Record', (one) => twoLines(html`${oldNameOf(one)}`, `${one.object}${when(one.merged_into, ', merged')}`)],
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
      lead: `What was deleted in the last ${days} days. A record can be restored alone, or with all deleted together.`,
      above: filters(section, filterChoice('by', 'By', [['', 'anybody'], ...people, ...programs], by)),
      columns,
      rows: deletions,
      none:
        by !== '' || before !== undefined
          ? ['Nothing found', 'They deleted nothing that stands here.']
          : ['Nothing deleted', 'Records that somebody deletes stand here, and can be restored.'],
      below: cursorPager(request, next?.toString()),
    });
  });

  addPage(app, '/changes/:id', forMembers, async (request) => {
    const change = await requireChange(request);
    const { id, source, undo_of, undos } = change;
    const [users, origin] = await Promise.all([
      lookUp(request, listUsers),
      undo_of && ask(request, findChange, eventNouns, undo_of),
    ]);
    const kind = undo_of === undefined ? source : 'job';
    const of = kind === 'job' || kind === 'import' ? link(`its ${kind}`, `/app/${kind}s/${id}`) : '';
    const back = origin && link('what it took back', `/app/changes/${origin.id}`);
    const told = [whoOf(change.actor, users), moment(change.occurred_at), of, back];
    const fate = fateOf(id, undos, change.records);
    return {
      title: titleOf(change, origin || undefined),
      lead: told.filter(Boolean).join(' · '),
      actions: fate.undo ? '' : undoButton(change, 'Undo'),
      body: html`!${fateText(change, fate, users)} !${await recordsOf(request, change, users)}`,
    };
  });

  question(app, '/changes/:id/undo', forMembers, {
    about: requireUndo,
    title: ({ change, one }) => (one ? oneText(change, one) : 'Undo'),
    section: ({ one }) => (one?.type === 'deleted' ? section : ''),
    text: (asked, request) => (asked.one ? textOfOne(asked.change, asked.one) : textOfAll(request, asked)),
    isVain: ({ tried }) => tried?.counts.restored === 0,
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

/**
 * Returns the undo that has taken back a whole change, or takes it back now, and the number of records that are as before
 * the change.
 */
function fateOf(id: string, undos: readonly TakenBack[], all = Infinity) {
  const own = undos.filter((one) => one.undo_of === id && (one.records > 0 || one.finished_at === null));
  const records = own.reduce((sum, one) => sum + one.records, 0);
  return { undo: own.find(({ only }) => only === null) ?? (records >= all ? own[0] : undefined), records };
}

function fateText(change: ToldChange, { undo, records }: ReturnType<typeof fateOf>, users: readonly User[]): Html {
  const all = counted(change.records, 'record');
  if (!undo) {
    if (records > 0) return notice(`${count(records)} of ${all} are taken back already.`, 'plain');
    const why =
      change.undo_of === undefined ? 'it has not ended, or a record was merged since' : 'merge the records again';
    return when(!change.undoable, quiet(`It cannot be taken back: ${why}.`));
  }
  const isEnded = undo.finished_at !== null;
  const rest = isEnded ? change.records - records : 0;
  const parts = [
    moment(undo.finished_at, 'now'),
    whoOf(undo.actor, users),
    isEnded ? link('See what that did', `/app/changes/${undo.id}`) : link('See how far it is', jobPath(undo)),
    html`${count(rest)} of ${all} stayed as they are: !${link('see why', `${jobPath(undo)}?outcome=skipped`)}, or
    !${dialogLink('try again', `/app/changes/${change.id}/undo`)}`,
  ];
  const told = parts.slice(0, rest > 0 ? 4 : 3).join(' · ');
  const tone = rest > 0 ? 'warning' : isEnded ? 'good' : 'busy';
  return notice(isEnded ? 'Taken back' : 'It is being taken back', tone, told);
}

function titleOf(change: ToldChange, origin: ToldChange | undefined): string {
  if (!origin) return plain(countsText(change, 2));
  return origin.undo_of === undefined ? `Undo: ${countsText(origin, 2)}` : `Undo of an undo: ${countsText(change, 2)}`;
}

/** Returns the label of an undo that is limited to one record, which names its scope. */
function oneText({ records }: ToldChange, { type, object }: Change): string {
  if (type === 'deleted') return 'Restore';
  return records > 1 ? `Undo for this ${object} only` : 'Undo';
}

/** Returns a page of the records that a change has written, with what it did to each. */
async function recordsOf(request: FastifyRequest, { id, undo_of, counts }: ToldChange, users: readonly User[]) {
  const nouns = eventNouns.filter((noun) => counts[noun]);
  const object = nouns.find((noun) => noun === queryText(request, 'object')) ?? nouns[0];
  const before = positionIn(request);
  const filters = { change_id: id, ...(object && { object }) };
  const { changes, next } = await ask(request, listChanges, eventNouns, { filters, before, limit: 50 });
  const wanted = changes.flatMap((one) =>
    [one.record_id, one.merged_into ?? []].flat().map((record) => [one.object, record] as const),
  );
  const names = await namedRecords(request, [...wanted, ...changes.flatMap(referencesIn)]);
  const linked = (record: string, name: string): Html => recordLink(names.get(record), html`${name}`);
  const path = `/app/changes/${id}`;
  const subjectOf = (one: Change): Html =>
    when(one.object === 'activity', recordLink(referencesIn(one).flatMap(([, id]) => names.get(id) ?? [])[0]));
  const nameOfRow = (one: Change): Html => linked(one.record_id, nameAt(one, one.type === 'deleted' ? 0 : 1));
  const columns: readonly Column<Change>[] = [
    ['Record', nameOfRow],
    [
      'What',
      (one) => {
        if (one.merged_into !== undefined) return html`merged into !${linked(one.merged_into, 'another')}`;
        const wordIn = (field: string): string => wordOf(one.object, field);
        if (one.type === 'updated') return changeText(one, { id: one.record_id, wordOf: wordIn, users, names });
        const verb = undo_of && one.type === 'created' ? 'restored' : one.type;
        const told = tellingFields.flatMap((name) => one.fields[name]?.filter(Boolean) ?? []);
        return [html`${[verb, ...told].join(' · ')}`, subjectOf(one)].filter(Boolean).join(' · ');
      },
      'long',
    ],
  ];
  const parts = nouns.map((noun) => {
    const { created, updated, deleted } = counts[noun]!;
    const label = counted(created + updated + deleted, noun, plurals[noun]);
    return noun === object
      ? html`<strong aria-current="page">${label}</strong>`
      : link(label, pathWith(path, { object: noun }));
  });
  return html`!${when(parts.length > 1, html`<p class="row">!${parts}</p>`)}
  !${table(object ? plain(plurals[object]) : 'Records', columns, changes)} !${cursorPager(request, next?.toString())}`;
}

/** Fields of a record that was created or deleted, beside its name, of which people know it. */
const tellingFields = ['job_title', 'work_email', 'domain', 'industry', 'location_locality'];

/** Waits at most 2 seconds for the job of an undo. Returns true if the job has taken back everything by then. */
async function isTakenBackSoon(request: FastifyRequest, jobId: string): Promise<boolean> {
  for (let left = 40; left > 0; left -= 1) {
    const { status, total, succeeded, finished_at } = await lookUp(request, requireJobView, jobId, allJobs);
    if (finished_at !== null)
      return status === 'COMPLETED' && succeeded === total && (await lookUp(request, findReason, jobId)).length === 0;
    await sleep(50);
  }
  return false;
}

const requireChange = async (request: FastifyRequest): Promise<ToldChange> =>
  required(await ask(request, findChange, eventNouns, idOf(request, 'change')), 'change');

type Undone = Exclude<Awaited<ReturnType<typeof requireUndo>>, string>;

function backOf({ change, one }: Undone, request: FastifyRequest): string {
  const recordPath = one && (one.type === 'deleted' ? section : `${listPathOf(one.object)}/${one.record_id}`);
  return backPath(request, recordPath ?? `/app/changes/${change.id}`);
}

/**
 * Returns what is to be undone, or the path of the change's page, if it is taken back as far as that is possible. `tried`
 * is what the undo of the whole change would do. `one` is what the change did to the only record of a limited undo.
 * @throws DomainError `forbidden` if the undo would delete more records than this user may delete at once
 */
async function requireUndo(request: FastifyRequest) {
  const change = await requireChange(request);
  const record = queryText(request, 'record');
  if (record === '') {
    const created = Object.values(change.counts).reduce((sum, one) => sum + one.created, 0);
    if (created > memberDeletes && !isAdmin(request))
      throw new DomainError('forbidden', `Only an admin takes back the creation of more than ${memberDeletes} records`);
    const { undo, records } = fateOf(change.id, change.undos, change.records);
    if (undo && (undo.finished_at === null || records >= change.records)) return `/app/changes/${change.id}`;
    return { change, ...(request.method !== 'POST' && { tried: await tryOf(request, change) }) };
  }
  const filters = { change_id: change.id, record_id: required(canonicalId(record), 'record') };
  const { changes } = await ask(request, listChanges, eventNouns, { filters, limit: 1 });
  return { change, one: required(changes[0], 'change'), tried: undefined };
}

const tryOf = ({ db, caller }: FastifyRequest, { id }: ToldChange) => tryUndo(db, undoerOf(caller), id);

async function textOfAll(request: FastifyRequest, { change, tried }: Undone): Promise<Html> {
  const { counts, kept } = tried ?? (await tryOf(request, change));
  const { records, restored } = counts;
  const hasMerges = Object.keys(change.merged).length > 0;
  const wanted = kept.map(({ noun, id }) => [noun, id] as const);
  const names = await namedRecords(request, wanted);
  const lines = kept.map(({ noun, id, reason, fields }) => {
    const words = fields.map((name) => wordOf(noun, name)).join(', ');
    const why = reason ? reasonWord(reason) : 'changed since';
    return html`<span>!${recordLink(names.get(id), noun)}: ${[words, why].filter(Boolean).join(' – ')}</span>`;
  });
  return html`<p>
      This !${countsText(change)}. The undo takes back
      ${restored === records ? 'all of it' : `${count(restored)} of ${counted(records, 'record')}`}.
      ${counts.kept > 0 ? `Something stays as it is in ${counted(counts.kept, 'record')}.` : ''}
      ${hasMerges ? 'The merged records stand again. This undo cannot be undone.' : 'You can undo the undo, too.'}
    </p>
    !${when(lines.length > 0, plainList(lines, ''))}`;
}

export const wordOf = (noun: EventNoun, name: string): string =>
  noun === 'list' || noun === 'activity' ? plain(nounIn(name) ?? name) : fieldWord(plurals[noun], name);

function textOfOne(change: ToldChange, one: Change): Html {
  const whole = link('Undo all of it instead', `/app/changes/${change.id}/undo`);
  return html`<p>!${undoTexts[one.type](one)}</p>
    !${when(change.records > 1, html`<p>The whole change ${countsText(change)}. !${whole}</p>`)}`;
}

const undoTexts: Readonly<Record<Change['type'], (change: Change) => Html>> = {
  created: ({ object }) => html`This ${object} is deleted, unless it was changed since.`,
  updated: ({ object }) => html`This ${object} gets back what it had before this change. What was changed since stays.`,
  deleted: (change) =>
    html`<strong>${oldNameOf(change)}</strong> will be back, with its lists and everything else that still exists.`,
};

const undoButton = ({ id, undoable }: Pick<ToldChange, 'id' | 'undoable'>, label: string): Html =>
  when(undoable, linkButton(label, `/app/changes/${id}/undo`, 'secondary outline', 'data-dialog'));

/** Returns a button that undoes a job or import, or says by whom it was undone. */
export async function undoOf(request: FastifyRequest, id: string, label: string): Promise<Html> {
  const [undoable, undos] = await Promise.all([lookUp(request, isUndoable, id), lookUp(request, findTakenBack, [id])]);
  const { undo } = fateOf(id, undos);
  if (!undo) return undoButton({ id, undoable }, label);
  const by = whoOf(undo.actor, await lookUp(request, listUsers));
  return html`<span class="quiet">Taken back by !${by}, !${moment(undo.finished_at, 'now')}.</span>
    !${linkButton('See what that did', jobPath(undo), 'secondary outline')}`;
}

/** Number of records up to which the list of jobs counts what an undo has taken back. */
const maxSummed = 10_000;

/** Returns in words what undos have taken back, by the ids of their jobs. */
export async function undoneTexts(request: FastifyRequest, jobs: readonly Job[]): Promise<ReadonlyMap<string, string>> {
  const ids = jobs.flatMap(({ id, type }) => (type === 'undo' ? [id] : []));
  if (ids.length === 0) return new Map();
  const undos = await lookUp(request, findTakenBack, ids);
  const small = undos.flatMap(({ undo_of, total }) => (total <= maxSummed ? [undo_of] : []));
  const sums = await ask(request, sumChanges, eventNouns, small);
  const single = [...sums.values()].filter(({ records }) => records === 1);
  const ofOne = ({ counts, record_id: id }: (typeof single)[number]) =>
    [Object.keys(counts)[0] as EventNoun, id] as const;
  const names = await namedRecords(request, single.map(ofOne));
  const textOf = ({ undo_of, only, total }: TakenBack): string => {
    const sum = sums.get(undo_of);
    if (!sum) return `wrote ${counted(total, 'record')}`;
    const one = sum.records === 1 && names.get(sum.record_id);
    return `${countsText(sum, 2)}${one ? `: ${nameOf(one.noun, one.record)}` : ''}${when(only && sum.records !== 1, ', for one record only')}`;
  };
  return new Map(undos.map((undo) => [undo.id, textOf(undo)]));
}

/**
 * Returns in words what a change has done. A record into which others were merged is told with them.
 * @param maxKinds number of kinds of records that are named; of more, only their sum is told
 */
function countsText({ counts, merged }: Pick<ToldChange, 'counts' | 'merged'>, maxKinds = Infinity): string {
  const told = (verb: string, numberOf: (noun: EventNoun, into: number) => number | undefined): string => {
    const some = eventNouns.map((noun) => [noun, numberOf(noun, merged[noun] ?? 0) ?? 0] as const);
    const parts = some.flatMap(([noun, number]) => (number > 0 ? [counted(number, noun, plurals[noun])] : []));
    const sum = some.reduce((all, [, number]) => all + number, 0);
    const told = parts.length > maxKinds ? counted(sum, 'record') : new Intl.ListFormat('en-GB').format(parts);
    return when(sum > 0, `${verb} ${told}`);
  };
  const into = told('merged', (_noun, number) => number);
  return [
    told(verbs.created, (noun) => counts[noun]?.created),
    when(into, `${into} into another`),
    told(verbs.updated, (noun, number) => (number > 0 ? 0 : counts[noun]?.updated)),
    told(verbs.deleted, (noun, number) => (counts[noun]?.deleted ?? 0) - number),
  ]
    .filter(Boolean)
    .join(', ');
}

const restoreLink = ({ fields, change_id, record_id }: Change): Html =>
  Object.keys(fields).length === 0
    ? 'removed for good'
    : html`<a href="/app/changes/${change_id}/undo?record=${record_id}" data-dialog>Restore</a>`;

/** Returns the kind of record that a part of a path or of a request names. */
export const nounOf = (part?: string): EventNoun | undefined =>
  eventNouns.find((noun) => part === noun || part === plurals[noun]);

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

/** @param otherwise what stands for a record that is not found */
export const recordLink = (found: NamedRecord | undefined, otherwise: Html = ''): Html =>
  found ? link(nameOf(found.noun, found.record), `${listPathOf(found.noun)}/${found.record.id}`) : otherwise;

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

type FieldTelling = Omit<Telling, 'id'>;

export const verbs = { created: 'created', updated: 'changed', deleted: 'deleted' } as const;

/** Returns the kind of record to which a field refers. */
const nounIn = (field: string) => nounOf(/^(contact|company|opportunity)(?=(_id)?$)/.exec(field)?.[0]);

/** Returns the records to which the changed fields refer, before and after the change. */
export const referencesIn = ({ fields }: Change): (readonly [EventNoun, string])[] =>
  Object.entries(fields).flatMap(([name, ids]) => {
    const noun = nounIn(name);
    return noun ? ids.flatMap((id) => (typeof id === 'string' ? [[noun, id] as const] : [])) : [];
  });

export function changeText(change: Change, telling: Telling): Html {
  if (change.type === 'updated') return fieldsText(change, telling);
  if (change.record_id !== telling.id) return html`merged <strong>${oldNameOf(change)}</strong> into it`;
  return html`${change.type} it${change.merged_into === undefined ? '' : ' by a merge'}`;
}

export function fieldsText({ fields }: Pick<Change, 'fields'>, telling: FieldTelling): Html {
  const lines = Object.entries(fields).map(([name, values]) => {
    const [before, after] = values.map((value) => valueText(name, value, telling));
    // The value of an opportunity tells its amount, and its products do not.
    if (name === 'details' && before === after) return '';
    return html`<span class="line">${telling.wordOf(name)}: !${before} → !${after}</span>`;
  });
  return lines.join('');
}

const digits = { minimumFractionDigits: 2, maximumFractionDigits: 4, trailingZeroDisplay: 'stripIfInteger' } as const;

const priceText = (price: number): string => price.toLocaleString('en-GB', digits);

const detailText = ({ name, quantity, price }: Detail) => `${quantity} × ${name} at ${priceText(price)}`;

const userText: FieldText = (id, { users }) => users.find((user) => user.id === id)?.name ?? 'a user';

type FieldText = (value: never, telling: FieldTelling) => string;

const valueTexts: Readonly<Record<string, FieldText>> = {
  location_country: (code: string) => countryName(code),
  assigned_to: userText,
  user_id_assigned: userText,
  contacts_ids: (ids: unknown[]) => counted(ids.length, 'contact'),
  details: (lines: Detail[]) => lines.flatMap((line) => (isAmount(line) ? [] : [detailText(line)])).join(', '),
  price: priceText,
  phone_numbers: (phones: PhoneNumber[]) => phones.map(phoneNumber).join(', '),
  mobile_phone: (number: string) => phoneNumber({ country_code: '', number }),
  stage_id: (id, { stages }) => stages?.get(id) ?? 'a stage elsewhere',
  priority: (priority: keyof typeof priorityWords) => priorityWords[priority].word,
  verification_status: (status: keyof typeof verificationWords) => verificationWords[status].word,
};

const nothing: Html = '<span class="quiet">–</span>';

function valueText(name: string, value: unknown, telling: FieldTelling): Html {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) return nothing;
  const noun = nounIn(name);
  if (noun && telling.names) return recordLink(telling.names.get(asText(value)), `a deleted ${noun}`);
  const known = Object.hasOwn(valueTexts, name) ? valueTexts[name]!(value as never, telling) : undefined;
  const shown = known ?? (Array.isArray(value) ? value.map(asText).join(', ') : asText(value));
  if (isInstant(shown)) return /(_date|due_at)$/.test(name) ? day(shown) : moment(shown);
  if (readDay(shown) === shown) return day(shown);
  return shown === '' ? nothing : html`${shown}`;
}

function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return Object.values(value).map(asText).join(' ');
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
