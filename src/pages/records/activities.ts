import type { FastifyInstance, FastifyRequest, FastifyReply } from 'fastify';
import {
  createActivity,
  deleteActivity,
  findActivities,
  updateActivity,
  listActivities,
} from '../../queries/crm/activities.ts';
import { ActivityCreate, ActivityPatch, activityTypes, type Activity } from '../../schemas/activities.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { forMembers, goTo, withUndo, ownPath, form } from '../base/layout.ts';
import {
  fieldsOf,
  queryOf,
  text,
  asSentBack,
  field,
  hidden,
  inputField,
  linesIn,
  selectField,
  textArea,
  tick,
} from '../base/forms.ts';
import type { Faults, Fields } from '../base/forms.ts';
import { html, type Html, dayOf, endOf, startOf, day, moment, pager } from '../base/html.ts';
import { activityWords } from '../base/words.ts';
import { editor, requireRecord } from './editor.ts';
import { usersOf, userChoices } from './record-form.ts';
import type { Fault } from '../../errors.ts';
import type { User } from '../../schemas/accounts.ts';
import type { References } from './record-kind.ts';
import { cursorFault } from '../../filters/cursor.ts';
import { listChanges, findRecords } from '../../queries/history/history.ts';
import { type Change, eventNouns } from '../../schemas/events.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import { changeText, nameOf, recordPaths, whoOf, type Telling } from '../changes.ts';

const path = '/app/activities';

export async function activities(app: FastifyInstance): Promise<void> {
  app.get('/activities', forMembers, async (request, reply) =>
    goTo(reply, text(queryOf(request), 'done') === 'sent' ? '/app?done=sent' : '/app'),
  );

  app.get('/activities/:id', forMembers, async (request, reply) => {
    const found = await requireActivity(request);
    return goTo(reply, `${recordPathOf(found)}?done=activity-${text(queryOf(request), 'done')}`);
  });

  app.post('/activities/:id/done', forMembers, async (request, reply) => {
    const fields = fieldsOf(request);
    const isDone = text(fields, 'done') === '1';
    const found = await requireActivity(request);
    const back = ownPath(text(fields, 'back'));
    const told = `${back}${back.includes('?') ? '&' : '?'}done=${isDone ? 'completed' : 'reopened'}`;
    if (isDone === (found.done_at !== null)) return goTo(reply, told);
    const patch = { done_at: isDone ? new Date().toISOString() : null };
    await request.db.transaction((sql) => updateActivity(sql, request.caller.customerId, found.id, patch));
    return goTo(reply, withUndo(request, told));
  });

  editor<Activity>(app, {
    path,
    noun: 'activity',
    schemas: { create: ActivityCreate, patch: ActivityPatch },
    require: requireActivity,
    nameOf: ({ type, title }) => title || `this ${activityWords[type].word.toLowerCase()}`,
    tagOf: etagOf,
    bodyOf: activityOf,
    controls: async (request, { stored, sent, refused: { faults }, isConflict }) => {
      const draft = sent ?? (stored ? draftOf(stored) : queryOf(request));
      const { contact_id = null, company_id = null, opportunity_id = null } = draft as Record<string, string | null>;
      const about = { contact_id, company_id, opportunity_id };
      const users = await usersOf(request);
      const theirs = stored && sent && isConflict ? differingFrom(stored, sent) : {};
      return html`<div class="card composer">
        !${activityControls(draft, { users, faults, theirs, ...(stored ? {} : { about }) })}
      </div>`;
    },
    verb: 'Save',
    create: (sql, { customerId }, body) => createActivity(sql, customerId, body),
    update: updateActivity,
    remove: deleteActivity,
    question: (_request, { title, body }) =>
      html`<strong>${title || body.slice(0, 200)}</strong> is deleted. For 90 days this can be undone.`,
    showsNotice: true,
    back: recordPathOf,
    afterDeletion: (found) => `${recordPathOf(found)}?done=activity-deleted`,
  });
}

const recordPathOf = ({ contact_id, company_id, opportunity_id }: Activity): string =>
  opportunity_id !== null
    ? `/app/opportunities/${opportunity_id}`
    : contact_id !== null
      ? `/app/contacts/${contact_id}`
      : `/app/companies/${company_id}`;

const requireActivity = (request: FastifyRequest): Promise<Activity> =>
  requireRecord(request, 'activity', findActivities);

const references = ['contact_id', 'company_id', 'opportunity_id'] as const;

export const draftOf = (stored: Activity): Fields => ({
  type: stored.type,
  title: stored.title,
  body: stored.body,
  due_at: stored.due_at === null ? '' : dayOf(stored.due_at),
  occurred_at: dayOf(stored.occurred_at),
  assigned_to: stored.assigned_to ?? '',
});

const differingFrom = (stored: Activity, sent: Fields): Record<string, string> =>
  Object.fromEntries(
    Object.entries(draftOf(stored) as Record<string, string>).filter(
      ([name, value]) => linesIn(sent, name) !== asSentBack(value),
    ),
  );

/**
 * Reads a submitted form. A task is due at the end of its day.
 * @param stored undefined for a new activity
 */
async function activityOf(
  request: FastifyRequest,
  stored: Activity | undefined,
): Promise<{ body: object; faults: Fault[] }> {
  const fields = fieldsOf(request);
  const before = stored ? draftOf(stored) : {};
  const isTask = text(fields, 'type') === 'task';
  const day = (name: string, instantOf: (day: string) => string) => {
    const given = text(fields, name);
    return given === '' ? null : instantOf(given);
  };
  const id = (name: string) => canonicalId(text(fields, name)) ?? (text(fields, name) || null);
  const given = {
    type: text(fields, 'type'),
    title: text(fields, 'title').trim(),
    body: linesIn(fields, 'body').trim(),
    ...(isTask && { due_at: day('due_at', endOf), assigned_to: id('assigned_to') }),
    ...(!isTask && text(fields, 'occurred_at') !== '' && { occurred_at: day('occurred_at', startOf) }),
    ...(!stored && Object.fromEntries(references.map((name) => [name, id(name)]))),
  };
  const isChanged = (name: string) => !stored || linesIn(fields, name) !== asSentBack(text(before, name));
  const faults = given.title === '' && given.body === '' ? [{ path: '/body', message: 'write something' }] : [];
  return { body: Object.fromEntries(Object.entries(given).filter(([name]) => isChanged(name))), faults };
}

/**
 * Returns the controls of an activity's form. The style sheet hides controls that do not fit the type of the activity.
 * @param about records of a new activity
 * @param theirs texts that somebody else stored meanwhile and that differ from those of the form
 */
function activityControls(
  fields: Fields,
  {
    users,
    faults,
    about,
    theirs = {},
  }: { users: readonly User[]; faults: Faults; about?: References; theirs?: Readonly<Record<string, string>> },
): Html {
  const type = text(fields, 'type') || 'note';
  const assignees = userChoices(users, theirs['assigned_to'] ?? text(fields, 'assigned_to'));
  const wordOf = (name: string, value: string): string => {
    if (name === 'type') return activityWords[value as Activity['type']].word;
    return (name === 'assigned_to' ? assignees.find(([id]) => id === value)?.[1] : value) || 'nothing';
  };
  const hintOf = (name: string): string => {
    const other = theirs[name];
    return other === undefined ? '' : `Stored now: ${wordOf(name, other)}`;
  };
  const named = (name: string, label: string) => ({
    name,
    label,
    hint: hintOf(name),
    faults,
  });
  const title = inputField(named('title', 'Title'), text(fields, 'title'));
  return html`!${about ? hidden(Object.fromEntries(Object.entries(about).map(([name, id]) => [name, id ?? '']))) : ''}
    <fieldset class="choices">
      <legend class="unseen">What it is</legend>
      !${activityTypes.map((one) => tick('radio', ['type', one], html`${activityWords[one].word}`, one === type))}
      !${theirs['type'] === undefined ? '' : html`<small>${hintOf('type')}</small>`}
    </fieldset>
    !${text(fields, 'title') === '' && theirs['title'] === undefined ? html`<div class="of-tasks">!${title}</div>` : title}
    !${field(named('body', 'Text'), (attributes) =>
      textArea(
        html`!${attributes} maxlength="10000" placeholder="What was said, or is to be done"`,
        text(fields, 'body'),
      ),
    )}
    <div class="of-tasks grid-fields">
      !${inputField(named('due_at', 'Due'), text(fields, 'due_at'), 'date', '')}
      !${selectField(named('assigned_to', 'Assigned to'), assignees, text(fields, 'assigned_to'))}
    </div>
    <details class="of-others" !${text(fields, 'occurred_at') === '' ? '' : 'open'}>
      <summary>On another day</summary>
      !${inputField(named('occurred_at', 'Day'), text(fields, 'occurred_at'), 'date', '')}
    </details>`;
}

const entriesShown = 25;

const tasksShown = 50;

export const activityNotices = {
  'activity-created': 'It is saved.',
  'activity-changed': 'The change is saved.',
  'activity-deleted': 'It is deleted.',
  completed: 'The task is done.',
  reopened: 'The task is open again.',
};

interface Workplace {
  id: string;
  path: string;
  filters: GivenFilters;
  about: References;
  telling: Telling;
}

export async function workplaceOf(request: FastifyRequest, reply: FastifyReply, place: Workplace): Promise<Html> {
  const { users } = place.telling;
  const older = text(queryOf(request), 'older');
  const [tasks, { entries, next }] = await Promise.all([
    older === '' ? openTasks(request, place.filters) : [],
    entriesOf(request, place, older),
  ]);
  const shown = [...tasks, ...entries.flatMap((entry) => ('created_by' in entry ? [entry] : []))];
  const names = await subjectsOf(request, shown, place.id);
  const composer = form(request, reply, {
    action: '/app/activities/new',
    attributes: 'class="card composer" id="compose" data-once data-keep',
    body: html`!${activityControls({ assigned_to: request.caller.userId }, { users, faults: {}, about: place.about })}
      <div class="buttons small"><button>Save</button></div>`,
  });
  return html`!${older === '' ? composer : ''}
    !${
      tasks.length === 0
        ? ''
        : html`<h2>To do</h2>
            !${taskList(request, reply, tasks, { users, names, back: place.path })}`
    }
    <h2 id="timeline">Timeline</h2>
    <ol class="timeline">
      !${entries.map((entry) =>
        'created_by' in entry
          ? activityEntry(request, reply, entry, { users, names, back: place.path })
          : changeEntry(entry, place.telling),
      )}
    </ol>
    !${pager(
      { newer: older === '' ? undefined : place.path, older: next && `${place.path}?older=${next}#timeline` },
      { newer: 'Newest', older: 'Older' },
    )}`;
}

const openTasks = async ({ db, caller }: FastifyRequest, filters: GivenFilters): Promise<Activity[]> =>
  (
    await listActivities(db, caller.customerId, {
      filters: { ...filters, type: 'task', is_done: false },
      order_by: { due_at: 'ASC' },
      paginate: { limit: tasksShown },
    })
  ).rows;

type Entry = Activity | Change;

const timeOf = (entry: Entry): number => Date.parse(entry.occurred_at);

/**
 * Returns a page of activities and changes together, newest first.
 * @param older end of the previous page: the cursor of the activities and the position of the changes. Each can be
 * empty
 */
async function entriesOf(
  { db, caller: { customerId } }: FastifyRequest,
  { id, filters }: Workplace,
  older: string,
): Promise<{ entries: Entry[]; next: string | undefined }> {
  const [, cursor = '', position = ''] = /^([^~]*)~(\d{1,15})?$/.exec(older) ?? [];
  if (older !== '' && cursor === '' && position === '') throw cursorFault('is not a cursor of this list');
  // Tasks that are open stand above.
  const list = (limit: number) =>
    listActivities(db, customerId, {
      filters: { ...filters, _or: [{ type: { ne: 'task' } }, { is_done: true }] },
      order_by: { occurred_at: 'DESC' },
      paginate: { limit, ...(cursor === '' ? {} : { cursor }) },
    });
  const before = position === '' ? undefined : Number(position);
  const [activities, { changes }] = await Promise.all([
    list(entriesShown),
    listChanges(db, customerId, eventNouns, { filters: { record_id: id }, before, limit: entriesShown }),
  ]);
  const all = [...activities.rows, ...changes].toSorted((a, b) => timeOf(b) - timeOf(a));
  const entries: Entry[] = all.slice(0, entriesShown);
  const isMore = all.length > entriesShown || activities.nextCursor !== undefined || changes.length === entriesShown;
  if (!isMore) return { entries, next: undefined };
  const told = entries.filter((entry): entry is Change => 'position' in entry);
  const used = entries.length - told.length;
  const after = used === 0 ? cursor : used === entriesShown ? activities.nextCursor : (await list(used)).nextCursor;
  return { entries, next: `${encodeURIComponent(after ?? '')}~${told.at(-1)?.position ?? position}` };
}

interface Subject {
  name: string;
  path: string;
}

const nouns = { contact_id: 'contact', company_id: 'company', opportunity_id: 'opportunity' } as const;

export async function subjectsOf(
  { db, caller }: FastifyRequest,
  activities: readonly Activity[],
  without = '',
): Promise<ReadonlyMap<string, Subject>> {
  const found = await Promise.all(
    Object.entries(nouns).map(async ([member, noun]) => {
      const ids = new Set(activities.map((one) => one[member as keyof typeof nouns]));
      const wanted = [...ids].filter((id): id is string => id !== null && id !== without);
      const records = wanted.length === 0 ? [] : await findRecords(db, caller.customerId, noun, wanted);
      return records.map(
        (one) => [one.id, { name: nameOf(noun, one), path: `${recordPaths[noun]}/${one.id}` }] as const,
      );
    }),
  );
  return new Map(found.flat());
}

interface Shown {
  users: readonly User[];
  names: ReadonlyMap<string, Subject>;
  back: string;
}

export const taskList = (
  request: FastifyRequest,
  reply: FastifyReply,
  tasks: readonly Activity[],
  shown: Shown,
): Html =>
  html`<ul class="tasks">
    !${tasks.map(
      (task) =>
        html`<li>
          !${doneBox(request, reply, task, shown.back)}
          <div>
            <span class="what">${task.title || task.body}</span>
            <span class="quiet">!${[dueText(task), ...partsOf(task, shown)].filter(Boolean).join(' · ')}</span>
          </div>
          !${links(task)}
        </li>`,
    )}
  </ul>`;

const today = (): string => dayOf(new Date().toISOString());

const dueText = ({ due_at, done_at }: Activity): Html =>
  due_at === null
    ? ''
    : html`<span class="${done_at === null && dayOf(due_at) < today() ? 'late' : ''}">due !${day(due_at)}</span>`;

function partsOf(one: Activity, { users, names }: Shown): Html[] {
  const user = users.find(({ id }) => id === one.assigned_to);
  const subjects = Object.keys(nouns).flatMap((member) => names.get(one[member as keyof typeof nouns] ?? '') ?? []);
  return [
    ...subjects.map(({ name, path }) => html`<a href="${path}">${name}</a>`),
    ...(user ? [html`${user.name}`] : []),
  ];
}

function doneBox(
  request: FastifyRequest,
  reply: FastifyReply,
  { id, title, body, done_at }: Activity,
  back: string,
): Html {
  const label = `${done_at === null ? 'Complete' : 'Reopen'}: ${title || body.slice(0, 80)}`;
  return form(request, reply, {
    action: `/app/activities/${id}/done`,
    attributes: 'class="done-form"',
    body: html`!${hidden({ done: done_at === null ? '1' : '', back })}
      <button class="box ${done_at === null ? '' : 'ticked'}" aria-label="${label}" title="${label}"></button>`,
  });
}

const links = ({ id, title, body, type }: Activity): Html => {
  const what = title || body.slice(0, 80) || activityWords[type].word;
  return html`<span class="acts">
    <a href="/app/activities/${id}/edit" data-dialog aria-label="Edit: ${what}">Edit</a>
    <a href="/app/activities/${id}/delete" data-dialog aria-label="Delete: ${what}">Delete</a>
  </span>`;
};

/** Returns a time as a day if it is the start of a day, because people choose days in forms. */
const when = (instant: string): Html =>
  Date.parse(instant) === Date.parse(startOf(dayOf(instant))) ? day(instant) : moment(instant);

function activityEntry(request: FastifyRequest, reply: FastifyReply, one: Activity, shown: Shown): Html {
  const { word, done } = activityWords[one.type];
  const parts = partsOf(one, { ...shown, users: one.type === 'task' ? shown.users : [] });
  return html`<li class="entry" id="activity-${one.id}">
    !${one.type === 'task' ? doneBox(request, reply, one, shown.back) : html`<span class="kind ${one.type}" aria-hidden="true">${word.charAt(0)}</span>`}
    <div>
      <p class="byline">
        <strong>!${whoOf(one.created_by, shown.users)}</strong> ${done}
        !${parts.length === 0 ? '' : html`<span class="quiet">· !${parts.join(' · ')}</span>`}
        <span class="quiet">!${when(one.done_at ?? one.occurred_at)}</span> !${links(one)}
      </p>
      !${one.title === '' ? '' : html`<p class="what">${one.title}</p>`}
      !${one.body === '' ? '' : html`<p class="text">${one.body}</p>`}
    </div>
  </li>`;
}

const changeEntry = (change: Change, telling: Telling): Html =>
  html`<li class="entry small-entry">
    <span class="kind change" aria-hidden="true"></span>
    <div>
      <p class="byline">
        <strong>!${whoOf(change.actor, telling.users)}</strong> !${changeText(change, telling)}
        <span class="quiet">!${moment(change.occurred_at)}</span>
        !${
          change.change_id === null
            ? ''
            : html`<span class="acts"
                ><a href="/app/changes/${change.change_id}/undo?record=${change.record_id}" data-dialog>Undo</a></span
              >`
        }
      </p>
    </div>
  </li>`;
