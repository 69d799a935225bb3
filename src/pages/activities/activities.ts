import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createActivity, deleteActivity, findActivities, updateActivity } from '../../queries/activities/activities.ts';
import { ActivityCreate, ActivityPatch, activityTypes, type Activity } from '../../schemas/activities.ts';
import { etagOf } from '../../text/etag.ts';
import { forMembers, goTo, withUndo } from '../base/layout.ts';
import { ownPath } from '../base/error-page.ts';
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
  type Faults,
  type Fields,
} from '../base/forms.ts';
import { html, type Html } from '../base/html.ts';
import { activityWords } from '../base/words.ts';
import { editor, requireRecord } from '../records/editor.ts';
import { usersOf, userChoices } from '../records/record-form.ts';
import type { Fault } from '../../errors.ts';
import type { User } from '../../schemas/users.ts';
import { canonicalId } from '../../text/ids.ts';
import { dayOf, endOf, startOf } from '../base/readers.ts';
import type { References } from '../records/record-kind.ts';

const path = '/app/activities';

/** Forms that create, change, complete and delete an activity. It is shown on the page of its record. */
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
    isTold: true,
    back: recordPathOf,
    afterDeletion: (found) => `${recordPathOf(found)}?done=activity-deleted`,
  });
}

export const recordPathOf = ({ contact_id, company_id, opportunity_id }: Activity): string =>
  opportunity_id !== null
    ? `/app/opportunities/${opportunity_id}`
    : contact_id !== null
      ? `/app/contacts/${contact_id}`
      : `/app/companies/${company_id}`;

const requireActivity = (request: FastifyRequest): Promise<Activity> =>
  requireRecord(request, 'activity', findActivities);

const references = ['contact_id', 'company_id', 'opportunity_id'] as const;

/** Returns the form of a stored activity. Its times are days. */
export const draftOf = (stored: Activity): Fields => ({
  type: stored.type,
  title: stored.title,
  body: stored.body,
  due_at: stored.due_at === null ? '' : dayOf(stored.due_at),
  occurred_at: dayOf(stored.occurred_at),
  assigned_to: stored.assigned_to ?? '',
});

/** Returns the texts of a stored activity that differ from those of a submitted form, by field. */
export const differingFrom = (stored: Activity, sent: Fields): Record<string, string> =>
  Object.fromEntries(
    Object.entries(draftOf(stored) as Record<string, string>).filter(
      ([name, value]) => linesIn(sent, name) !== asSentBack(value),
    ),
  );

/**
 * Reads a submitted form. A task is due until its day has ended.
 * @param stored undefined for a new activity
 */
export async function activityOf(
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
 * Returns the controls of an activity's form. What only tasks have, or only others, is hidden by the style sheet.
 * @param about what a new activity is about
 * @param theirs texts that somebody else has stored meanwhile, where they differ from those of the form
 */
export function activityControls(
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
