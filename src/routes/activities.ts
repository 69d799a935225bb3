import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  countActivities,
  exportActivities,
  findActivities,
  listActivities,
  activityWrites,
} from '../queries/crm/activities.ts';
import { Activity, ActivityCount, ActivityCreate, ActivityPatch, ActivityQuery } from '../schemas/activities.ts';
import { ActivityExport } from '../schemas/files.ts';
import { addRecordLists, recordRoutes } from '../plugins/record-routes.ts';

const activities: FastifyPluginAsyncTypebox = async (app) => {
  const kind = { path: '/activities', scope: 'activities', noun: 'activity' } as const;
  const one = recordRoutes(app, kind);

  addRecordLists(app, {
    ...kind,
    schemas: { list: ActivityQuery, count: ActivityCount, export: ActivityExport, shown: Activity },
    list: listActivities,
    count: countActivities,
    export: exportActivities,
  });

  one.create(ActivityCreate, activityWrites.create, {
    description:
      'Creates a note, task, call, meeting or e-mail with a contact, a company or an opportunity, or several of them. ' +
      'An unknown id in the body is 404, an `external_id` that another activity has is 409; nothing is created then.',
    errors: [404, 409],
  });

  one.read(Activity, findActivities, {
    description:
      'Returns one activity. The header `etag` holds its version. A deleted contact, company or opportunity shows as ' +
      'null; an activity of which all three are deleted or null is 404.',
  });

  one.update(ActivityPatch, activityWrites.update, {
    description:
      'Changes the fields that are sent; others stay. `null` clears a field that can be null. A task that gets another ' +
      'type loses `due_at` and `done_at`. With `If-Match` the activity is changed only if it still has that version (else 412).',
    errors: [409],
  });

  one.remove(activityWrites.remove, {
    description: 'Deletes an activity. With `If-Match` it is deleted only if it still has that version (else 412).',
  });
};

export default activities;
