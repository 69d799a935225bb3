import type { FastifyInstance, FastifyRequest } from 'fastify';
import { createActivity, deleteActivity, findActivities, updateActivity } from '../../queries/activities/activities.ts';
import { ActivityCreate, ActivityPatch, type Activity } from '../../schemas/activities.ts';
import { etagOf } from '../../text/etag.ts';
import { forMembers } from '../base/access.ts';
import { ownPath } from '../base/error-page.ts';
import { fieldsOf, queryOf, text } from '../base/forms.ts';
import { html } from '../base/html.ts';
import { goTo, withUndo } from '../base/layout.ts';
import { activityWords } from '../base/words.ts';
import { editor, requireRecord } from '../records/editor.ts';
import { usersOf } from '../records/record-edit.ts';
import { activityControls, activityFormFields, activityOf, differingFrom, draftOf } from './activity-form.ts';

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
    fields: activityFormFields,
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

/** Returns the path of the page that shows an activity. */
export const recordPathOf = ({ contact_id, company_id, opportunity_id }: Activity): string =>
  opportunity_id !== null
    ? `/app/opportunities/${opportunity_id}`
    : contact_id !== null
      ? `/app/contacts/${contact_id}`
      : `/app/companies/${company_id}`;

/** @throws DomainError `not_found` */
const requireActivity = (request: FastifyRequest): Promise<Activity> =>
  requireRecord(request, 'activity', findActivities);
