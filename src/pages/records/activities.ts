import type { FastifyInstance, FastifyRequest } from 'fastify';
import { findActivities, listActivities, activityWrites } from '../../queries/crm/activities.ts';
import { ActivityCreate, ActivityPatch, activityTypes, type Activity } from '../../schemas/activities.ts';
import { canonicalId, etagOf } from '../../text/ids.ts';
import { forMembers, addPage, addAction, withUndo, ownPath, backPath, urlOf } from '../base/layout.ts';
import type { Answer, Page } from '../base/layout.ts';
import { doneNotice, undoButton, form, controlsFor, choices, cursorPager, differing } from '../base/forms.ts';
import { filterChoice, filters, formFaults, tick, hidden, type Choice } from '../base/forms.ts';
import { ask, lookUp, once, write, fieldsOf, text, linesIn, asSentBack, queryText } from '../base/requests.ts';
import { sentText } from '../base/requests.ts';
import { notSent, passing, refusalOf, requireValid, type Fields, type Faults, type Refused } from '../base/requests.ts';
import { when, sideBySide, pager, pathWith, quiet, dialogLink, link, html, dayIn, dayOf } from '../base/html.ts';
import { linkButton, notice, submit } from '../base/html.ts';
import { readDay, startOf, endOf, today, moment, day, shortDay, type Html, type Day } from '../base/html.ts';
import { activityWords, contactPhone } from '../base/words.ts';
import { editor, requireRecord, usersOf, userChoices, recordSuggestions, type Draft } from './editor.ts';
import type { User } from '../../schemas/accounts.ts';
import type { Contact } from '../../schemas/contacts.ts';
import { findByText, type References } from './kinds.ts';
import { fold } from '../../text/fold.ts';
import type { TakenBack } from '../../queries/history/undo-state.ts';
import { readTimeline, type NamedRecord } from '../../queries/history/timeline.ts';
import type { Change } from '../../schemas/events.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import { changeText, namedRecords, recordLink, referencesIn, whoOf, type Telling } from '../changes.ts';

const path = '/app/activities';

export async function activities(app: FastifyInstance): Promise<void> {
  addPage(app, '/activities', forMembers, showTasks);

  addPage(app, '/activities/:id', forMembers, async (request) => {
    const found = await requireActivity(request);
    const done = queryText(request, 'done');
    return pathWith(recordPathOf(found), { done: done === 'created' ? 'planned' : done });
  });

  addAction(app, '/activities/:id/done', forMembers, async (request) => {
    const isDone = sentText(request, 'done') === '1';
    const done_at = isDone ? new Date().toISOString() : null;
    const patchOf = (task: Activity) => (isDone === (task.done_at !== null) ? undefined : { done_at });
    return changeTask(request, isDone ? 'completed' : 'reopened', patchOf);
  });

  addAction(app, '/activities/:id/move', forMembers, async (request) => {
    const day = readDay(sentText(request, 'day'));
    if (day === undefined) return changeTask(request, '', () => undefined);
    const due_at = endOf(day);
    return changeTask(request, 'moved', (task) => (task.due_at === due_at ? undefined : { due_at }));
  });

  editor<Activity>(app, {
    path,
    noun: 'activity',
    nounOf: (stored) => activityWords[stored?.type ?? 'task'].word.toLowerCase(),
    schemas: { create: ActivityCreate, patch: ActivityPatch },
    about: requireActivity,
    nameOf: ({ type, title }) => title || `this ${activityWords[type].word.toLowerCase()}`,
    bodyOf: (request, stored) => (stored ? activityOf(request, stored) : newTaskOf(request)),
    controls: async ({ stored, sent, faults, isConflict }, request) => {
      const draft = sent ?? (stored ? draftOf(stored) : { type: 'task', assigned_to: request.caller.userId });
      const theirs = stored && sent && isConflict ? differing(draftOf(stored), sent) : {};
      const more = { faults, theirs, ...(!stored && { about: {} }) };
      const { input, choice } = controlsFor(draft, faults, {}, ['about']);
      const isAsked = !stored && sent && (faults['which'] || text(sent, 'which') !== '');
      const { offered } = isAsked ? await foundAbout(request) : { offered: [] };
      const which = offered.map(({ row, name, about }): Choice => [row.id, `${name} · ${about}`]);
      const controls = html`!${stored ? html`<p>!${await aboutText(request, stored)}</p>` : input('about', 'Contact or company', { hint: 'Its name or its e-mail address.', more: recordSuggestions })}
      !${when(which.length > 0, choice('which', 'Which one', [['', 'please choose'], ...which]))}
      !${activityControls(draft, await usersOf(request), more, stored && stored.type !== 'task' ? activityTypes : ['task'])}`;
      const remove = stored && pathWith(`${path}/${stored.id}/delete`, { back: backOf(stored, request) });
      return html`<div class="card composer">!${controls} !${remove ? dialogLink('Delete', remove) : ''}</div>`;
    },
    create: activityWrites.create,
    update: activityWrites.update,
    remove: activityWrites.remove,
    question: ({ title, body }) =>
      html`<strong>${title || body.slice(0, 200)}</strong> will be deleted. This can be undone.`,
    back: backOf,
  });
}

/** Opens the form of a new task about a record that the form asks for. It leads back to this path. */
export const newTask = (back: string) => linkButton('New task', pathWith(`${path}/new`, { back }), '', 'data-dialog');

/** Returns what was done last on a page of tasks. Names the record of a task that was created, which may be far below. */
export async function tasksNotice(request: FastifyRequest): Promise<Html> {
  const id = canonicalId(queryText(request, 'made'));
  const [task] = id ? await lookUp(request, findActivities, [id]) : [];
  if (!task) return doneNotice(request);
  const more = html`!${await aboutText(request, task)}. !${undoButton(request)}`;
  return notice(`“${shortOf(task)}” is created, about`, 'good', more);
}

async function aboutText(request: FastifyRequest, task: Activity): Promise<Html> {
  return partsOf(task, { users: [], names: await namedRecords(request, subjectsOf([task])) }).join(', ');
}

const mostFound = 25;

/** Finds the contacts and companies that a new task may be about, by their names, and the one that it is about. */
async function foundAbout(request: FastifyRequest) {
  const given = sentText(request, 'about').trim();
  const found = await findByText(request, given, mostFound);
  const isExact = (text: string | null | undefined) => fold(text ?? '') === fold(given);
  const exact = found.filter(({ kind, row, name }) => isExact(name) || isExact(kind.about(row)[0]));
  const offered = exact.length > 0 ? exact : found;
  // With so many of one kind, others of it may have the same name.
  const alike = found.filter(({ kind }) => kind === offered[0]!.kind);
  const isSure = offered.length === 1 && alike.length < mostFound;
  const one = offered.find(({ row }) => isSure || row.id === sentText(request, 'which'));
  return { given, one, offered };
}

/** Reads the form of a new task that is not on the page of a record, but names the contact or company. */
async function newTaskOf(request: FastifyRequest): Promise<Draft> {
  const { body } = activityOf(request, undefined);
  const { given, one, offered } = await foundAbout(request);
  const faults = 'title' in body && body.title === '' ? [{ path: '/title', message: 'write what is to be done' }] : [];
  if (one) return { body: { ...body, ...one.kind.workplace(one.row).about }, faults };
  const none = given === '' ? 'name a contact or a company' : `no contact or company is found by “${given}”`;
  const several = `choose one of those found by “${given}”, or write more words above`;
  const fault = offered.length === 0 ? { path: '/about', message: none } : { path: '/which', message: several };
  return { body, faults: [fault, ...faults] };
}

function recordPathOf({ contact_id, company_id, opportunity_id }: Activity): string {
  if (opportunity_id !== null) return `/app/opportunities/${opportunity_id}`;
  return contact_id !== null ? `/app/contacts/${contact_id}` : `/app/companies/${company_id}`;
}

/**
 * Changes a task unless it is so already. Returns the path that tells it, with an undo if this request has changed it:
 * of a double click, only the first does.
 * @param done what the page tells. Empty: nothing
 */
async function changeTask(
  request: FastifyRequest,
  done: string,
  patchOf: (task: Activity) => object | undefined,
): Promise<string> {
  const told = pathWith(ownPath(sentText(request, 'back')), { done });
  const task = await requireActivity(request);
  const patch = patchOf(task);
  if (patch === undefined) return told;
  const written = write(request, activityWrites.update, task.id, patch as never, etagOf(task)).then(() => true);
  const isWritten = await written.catch(passing('precondition_failed', false));
  return isWritten ? withUndo(request, told) : changeTask(request, done, patchOf);
}

const backOf = (found: Activity, request: FastifyRequest): string => backPath(request, recordPathOf(found));

const requireActivity = (request: FastifyRequest): Promise<Activity> =>
  requireRecord(request, 'activity', findActivities);

const nouns = { contact_id: 'contact', company_id: 'company', opportunity_id: 'opportunity' } as const;

const references = Object.keys(nouns) as (keyof typeof nouns)[];

const draftOf = (stored: Activity): Record<string, string> => ({
  type: stored.type,
  title: stored.title,
  body: stored.body,
  due_at: stored.due_at === null ? '' : dayOf(stored.due_at),
  occurred_at: dayOf(stored.occurred_at),
  assigned_to: stored.assigned_to ?? '',
});

/**
 * Reads the form of an activity. A task is due at the end of its day. Of a new one, the day is chosen (`due_on`) or given
 * (`due_at`).
 * @param stored undefined for a new activity
 */
function activityOf(request: FastifyRequest, stored: Activity | undefined): Draft {
  const fields = fieldsOf(request);
  const before = stored ? draftOf(stored) : {};
  const isTask = text(fields, 'type') === 'task';
  const day = (name: string, instantOf: (day: string) => string) => text(fields, name) && instantOf(text(fields, name));
  const id = (name: string) => canonicalId(text(fields, name)) ?? (text(fields, name) || null);
  const given = {
    type: text(fields, 'type'),
    title: text(fields, 'title').trim(),
    body: linesIn(fields, 'body').trim(),
    ...(isTask && {
      due_at: day('due_at', endOf) || (!stored && day('due_on', endOf)) || null,
      assigned_to: id('assigned_to'),
    }),
    ...(!isTask && text(fields, 'occurred_at') !== '' && { occurred_at: day('occurred_at', startOf) }),
    ...(!stored && Object.fromEntries(references.map((name) => [name, id(name)]))),
  };
  const isChanged = (name: string) => !stored || linesIn(fields, name) !== asSentBack(text(before, name));
  const faults = given.title === '' && given.body === '' ? [{ path: '/body', message: 'write something' }] : [];
  return { body: Object.fromEntries(Object.entries(given).filter(([name]) => isChanged(name))), faults };
}

const nextWeek = (day: Day) => [day, `Next week (${shortDay(day)})`] as const;

const quickDays = (): (readonly [day: Day, label: string])[] => [
  [today(), 'Today'],
  [dayIn(1), 'Tomorrow'],
  // Monday, or a week from Monday.
  nextWeek(dayIn(8 - new Date().getUTCDay())),
];

/**
 * Returns the controls of an activity's form. The style sheet hides those that do not fit the chosen type.
 * @param about records to which a new activity refers
 * @param theirs texts by field name that another user has stored since the form was opened
 * @param types types to choose from. A single one is not shown
 */
function activityControls(
  fields: Fields,
  users: readonly User[],
  { faults = {}, about, theirs = {} }: { faults?: Faults; about?: References; theirs?: Record<string, string> },
  types: readonly Activity['type'][] = activityTypes,
): Html {
  const type = text(fields, 'type') || 'note';
  const assignees = userChoices(users, theirs['assigned_to'] ?? text(fields, 'assigned_to'));
  const storedType = activityTypes.find((one) => one === theirs['type']);
  const { input, area, choice } = controlsFor(fields, faults, theirs, about && types.length === 1 ? ['title'] : []);
  const day = { type: 'date', more: '' };
  const title = input('title', 'Title');
  const hasTitle = text(fields, 'title') !== '' || 'title' in theirs;
  const chosen = 'due_on' in fields ? text(fields, 'due_on') : dayIn(1);
  const days = [...quickDays(), ['', 'No day'] as const];
  const due = days.map(([value, label]) => tick('radio', ['due_on', value], label, value === chosen));
  const dueDay = input('due_at', about ? 'Or due on' : 'Due', day);
  return html`!${about ? hidden(Object.fromEntries(Object.entries(about).map(([name, id]) => [name, id ?? '']))) : ''}
    <fieldset class="row" aria-label="What it is" !${when(types.length === 1, 'hidden')}>
      !${types.map((one) => tick('radio', ['type', one], html`${activityWords[one].word}`, one === type))}
      !${storedType ? html`<small>Stored now: ${activityWords[storedType].word}</small>` : ''}
    </fieldset>
    !${hasTitle ? title : html`<div class="of-tasks">!${title}</div>`}
    !${area('body', 'Text', '', 'maxlength="10000" placeholder="What was said, or is to be done"')}
    <div class="of-tasks">
      !${when(about, choices('Due', due))} !${sideBySide(dueDay, choice('assigned_to', 'Assigned to', assignees))}
    </div>
    <details class="of-others" !${when(text(fields, 'occurred_at'), 'open')}>
      <summary>On another day</summary>
      !${input('occurred_at', 'Day', day)}
    </details>`;
}

const [tasksShown, tasksOfPart] = [50, 15];

const lastDay = (): Day => dayIn(7);

const taskParts: Record<string, readonly [title: string, filters: () => GivenFilters]> = {
  overdue: ['Overdue', () => ({ due_at: { lt: startOf(today()) } })],
  today: ['To do today', () => ({ due_at: { between: [startOf(today()), endOf(today())] } })],
  week: ['In the next seven days', () => ({ due_at: { between: [startOf(dayIn(1)), endOf(lastDay())] } })],
  later: ['Later', () => ({ due_at: { gt: endOf(lastDay()) } })],
  undated: ['Without a day', () => ({ due_at: null })],
  done: ['Done', () => ({ is_done: true })],
};

const openParts = Object.keys(taskParts).slice(0, -1);

function listTasks(request: FastifyRequest, filters: GivenFilters, cursor = '', limit = tasksShown) {
  const isDone = filters['is_done'] === true;
  return ask(request, listActivities, {
    filters: { type: 'task', is_done: false, ...filters },
    order_by: isDone ? { updated_at: 'DESC' } : { due_at: 'ASC' },
    paginate: { limit, ...(cursor && { cursor }) },
  });
}

/**
 * Returns the first tasks of each part, without empty parts. Tells if nothing is due. A single part has pages, and is
 * shown even if it is empty.
 * @param who id of the person. Undefined: everybody
 * @param below what stands below the tasks that are due today
 */
export async function taskSections(
  request: FastifyRequest,
  parts: readonly string[],
  { who, users, back, below = '' }: { who: string | undefined; users: readonly User[]; back: string; below?: Html },
): Promise<Html> {
  const isOne = parts.length === 1;
  const [cursor, limit] = isOne ? [queryText(request, 'cursor'), tasksShown] : ['', tasksOfPart];
  const mine = who === undefined ? {} : { assigned_to: who };
  const found = await Promise.all(
    parts.map((part) => listTasks(request, { ...mine, ...taskParts[part]![1]() }, cursor, limit)),
  );
  const rowsOf = Object.fromEntries(parts.map((part, i) => [part, found[i]!.rows]));
  const names = await namedRecords(request, subjectsOf(Object.values(rowsOf).flat()));
  const isIdle = !isOne && !rowsOf['overdue']?.length && !rowsOf['today']?.length;
  const shown = { users: who === undefined ? users : [], names, back };
  return html`!${parts.map((part, i) => {
    const { rows, nextCursor } = found[i]!;
    const next = when(part === 'today', below);
    if (rows.length === 0 && !isOne && !(isIdle && part === 'today')) return next;
    const all = pathWith(path, { who: who ?? 'all', show: part });
    return html`<h2>${taskParts[part]![0]}</h2>
      !${rows.length === 0 ? quiet(isOne ? 'None.' : 'Nothing is due.') : taskList(rows, shown)}
      !${isOne ? cursorPager(request, nextCursor) : when(nextCursor, html`<p><a href="${all}">All of these</a></p>`)}
      !${next}`;
  })}`;
}

async function showTasks(request: FastifyRequest): Promise<Page> {
  const users = await usersOf(request);
  const { userId } = request.caller;
  const [given, show] = [queryText(request, 'who'), queryText(request, 'show')];
  const who = given === 'all' ? undefined : (canonicalId(given) ?? userId);
  const isPart = Object.hasOwn(taskParts, show);
  const people = users.filter(({ id, active }) => id !== userId && (active || id === who));
  const whose: Choice[] = [['', 'mine'], ['all', 'of everybody'], ...people.map(({ id, name }): Choice => [id, name])];
  const which: Choice[] = [['', 'to do'], ...Object.entries(taskParts).map(([part, [title]]): Choice => [part, title])];
  const of = { who, users, back: pathWith(path, { who: given, show }) };
  const controls = html`!${filterChoice('who', 'Whose', whose, who === userId ? '' : given)}
  !${filterChoice('show', 'Which', which, isPart ? show : '')}`;
  return {
    title: 'Tasks',
    done: await tasksNotice(request),
    actions: newTask(of.back),
    body: html`!${filters(path, controls)} !${await taskSections(request, isPart ? [show] : openParts, of)}`,
  };
}

interface Workplace {
  id: string;
  path: string;
  filters: GivenFilters;
  about: References;
  telling: Omit<Telling, 'id'>;
  refused: Refused;
}

/** Adds the page of a record and its composer, which leads back to the page. A refused activity stays in the composer. */
export function recordPage(
  app: FastifyInstance,
  route: string,
  show: (request: FastifyRequest, refused: Refused) => Promise<Answer>,
): void {
  addPage(app, route, forMembers, (request) => show(request, notSent));
  addAction(app, route, forMembers, async (request) => {
    try {
      const { body, faults = [] } = activityOf(request, undefined);
      requireValid(ActivityCreate, body, faults);
      const id = await once(request, (sql) => activityWrites.create(sql, request.caller.customerId, body as never));
      return pathWith(urlOf(request), { done: id === undefined ? 'sent' : 'changed' });
    } catch (error) {
      return show(request, refusalOf(error));
    }
  });
}

export async function workplaceOf(request: FastifyRequest, place: Workplace): Promise<Html> {
  const { users } = place.telling;
  const { faults } = place.refused;
  const older = queryText(request, 'older');
  const [tasks, { entries, next, ...changed }] = await Promise.all([
    older === '' ? listTasks(request, place.filters).then(({ rows }) => rows) : [],
    ask(request, readTimeline, place, older),
  ]);
  const shown = [...tasks, ...entries.flatMap((entry) => ('created_by' in entry ? [entry] : []))];
  const changes = entries.flatMap((entry) => ('position' in entry ? [entry] : []));
  const names = await namedRecords(request, [...subjectsOf(shown, place.id), ...changes.flatMap(referencesIn)]);
  const draft = request.method === 'POST' ? fieldsOf(request) : { assigned_to: request.caller.userId };
  const controls = activityControls(draft, users, { about: place.about, faults });
  const body = html`!${formFaults(faults, controls)} !${controls} !${submit('Save')}`;
  const composer = form(place.path, body, 'class="card composer" id="compose" data-once data-keep');
  const look = { users, names, back: place.path };
  const toDo = html`<h2>To do</h2>
    !${taskList(tasks, look)}`;
  return html`!${when(older === '', composer)} !${when(tasks.length > 0, toDo)}
    <h2 id="timeline">Timeline</h2>
    <ol class="timeline">
      !${entries.map((one) => ('created_by' in one ? activityEntry(one, look) : changeEntry(one, { ...place.telling, id: place.id, names }, { ...changed, back: place.path })))}
    </ol>
    !${pager({ first: when(older, place.path), next: next && `${pathWith(place.path, { older: next })}#timeline` })}`;
}

const subjectsOf = (activities: readonly Activity[], without = '') =>
  activities
    .flatMap((one) => references.map((member) => [nouns[member], one[member] ?? without] as const))
    .filter(([, id]) => id !== without);

/** What the entries of a timeline know of its changes. */
type Changed = Pick<Awaited<ReturnType<typeof readTimeline>>, 'undos' | 'wider' | 'merges'> & { back: string };

interface Shown {
  users: readonly User[];
  names: ReadonlyMap<string, NamedRecord>;
  back: string;
}

const taskList = (tasks: readonly Activity[], shown: Shown): Html =>
  html`<ul class="tasks">
    !${tasks.map((task) => {
      const contact = shown.names.get(task.contact_id ?? '');
      const phone = contact ? contactPhone(contact.record as Contact) : '';
      const parts = [dueText(task), ...partsOf(task, shown), ...(phone === '' ? [] : [phone])];
      return html`<li>
        !${doneBox(task, shown.back)}
        <div>
          <span class="what">${task.title || task.body}</span>
          !${when(task.title && task.body, html`<span class="quiet">${task.body.slice(0, 120)}</span>`)}
          <span class="quiet">!${parts.join(' · ')}</span>
        </div>
        !${moves(task, shown.back)}
      </li>`;
    })}
  </ul>`;

const shortOf = ({ title, body }: Activity): string => title || body.slice(0, 80);

function moves(task: Activity, back: string): Html {
  const due = task.due_at && dayOf(task.due_at);
  const days = quickDays().filter(([day], i) => task.done_at === null && day !== due && (i > 0 || (due && due < day)));
  const buttons = days.map(([day, label]) => {
    const spoken = `${label}: ${shortOf(task)}`;
    return html`<button class="link" name="day" value="${day}" aria-label="${spoken}">${label.split(' (')[0]!}</button>
      · `;
  });
  const body = html`!${hidden({ back })} !${buttons} !${editLink(task, back)}`;
  return form(`${path}/${task.id}/move`, body, 'class="acts"');
}

function dueText({ due_at, done_at }: Activity): Html {
  if (due_at === null) return '';
  return html`<span class="${when(done_at === null && dayOf(due_at) < today(), 'late')}">due !${day(due_at)}</span>`;
}

function partsOf(one: Activity, { users, names }: Pick<Shown, 'users' | 'names'>): Html[] {
  const user = users.find(({ id }) => id === one.assigned_to);
  const links = references.flatMap((member) => names.get(one[member] ?? '') ?? []).map((found) => recordLink(found));
  return user ? [...links, html`${user.name}`] : links;
}

function doneBox(one: Activity, back: string): Html {
  const isDone = one.done_at !== null;
  const label = `${isDone ? 'Reopen' : 'Complete'}: ${shortOf(one)}`;
  const box = html`<button class="box" aria-label="${label}" title="${label}">${when(isDone, '✓')}</button>`;
  return form(`${path}/${one.id}/done`, html`!${hidden({ done: isDone ? '' : '1', back })} !${box}`);
}

function editLink(one: Activity, back: string): Html {
  const spoken = `Edit: ${shortOf(one) || activityWords[one.type].word}`;
  return dialogLink('Edit', pathWith(`${path}/${one.id}/edit`, { back }), spoken);
}

const entry = (mark: Html, said: readonly [who: Html, what: Html, time: Html, acts: Html], body: Html = '', id = '') =>
  html`<li !${id && html`id="${id}"`}>
    !${mark}
    <div>
      <p class="byline">
        <strong>!${said[0]}</strong> !${said[1]} <span class="quiet">!${said[2]}</span>
        !${when(said[3], html`<span class="acts">!${said[3]}</span>`)}
      </p>
      !${body}
    </div>
  </li>`;

function activityEntry(one: Activity, shown: Shown): Html {
  const { word, done } = activityWords[one.type];
  const isTask = one.type === 'task';
  const parts = partsOf(one, { ...shown, users: isTask ? shown.users : [] });
  const at = one.occurred_at;
  if (one.done_at !== null) parts.push(html`done !${moment(one.done_at)}`);
  const what = html`${done} !${when(parts.length > 0, html`<span class="quiet">· !${parts.join(' · ')}</span>`)}`;
  // Forms store a chosen day as its start.
  const time = Date.parse(at) === Date.parse(startOf(dayOf(at))) ? day(at) : moment(at);
  return entry(
    isTask ? doneBox(one, shown.back) : html`<span class="kind" aria-hidden="true">${word.charAt(0)}</span>`,
    [whoOf(one.created_by, shown.users), what, time, editLink(one, shown.back)],
    html`!${when(one.title, html`<p class="what">${one.title}</p>`)}
    !${when(one.body, html`<p class="text">${one.body}</p>`)}`,
    `activity-${one.id}`,
  );
}

function changeEntry(change: Change, telling: Telling, { undos, wider, merges, back }: Changed): Html {
  const { change_id: id, record_id, object, merged_into } = change;
  const took = undos.find((one) => one.id === id);
  const taken = undos.find((one) => one.undo_of === id && one.records > 0);
  const wordFor = ({ has_merges }: TakenBack): string => (has_merges ? 'merge' : 'change');
  const told = took && change.type === 'created' ? 'restored it' : changeText(change, telling);
  const what = html`!${took ? `took back the ${wordFor(took)}: ` : ''}!${told}
  !${taken ? html`<span class="line quiet">This ${wordFor(taken)} was taken back.</span>` : ''}`;
  const page = `/app/changes/${id}`;
  const isWide = wider.has(id ?? '');
  // Of a merge of other records into one, a part is not undone.
  const isMerge = merges.has(id ?? '') && !isWide;
  const only = record_id === telling.id ? `this ${object}` : 'that one';
  const undo = isMerge
    ? dialogLink('Undo the merge', pathWith(`${page}/undo`, { back }))
    : dialogLink(isWide ? `Undo for ${only} only` : 'Undo', `${page}/undo?record=${record_id}`);
  const mayUndo = id && !took?.has_merges && !taken && (!isMerge || merged_into);
  const whole = when(isWide || isMerge || took, link('See the change', page));
  const acts = [whole, when(mayUndo, undo)].filter(Boolean).join(' · ');
  const said = [whoOf(change.actor, telling.users), what, moment(change.occurred_at), acts] as const;
  return entry('<span class="kind change" aria-hidden="true">&#8203;</span>', said);
}
