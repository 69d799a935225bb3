import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { Filters, filterFieldsOf, listBodies, textOfFilters } from './filters.ts';

export const activityTypes = ['note', 'task', 'call', 'meeting', 'email'] as const;

const writable = {
  type: wire.Enum(activityTypes, 'What it is. By default `note`.'),
  title: wire.Text(255, {
    description: 'What it is about, in a line. An activity needs a title or a body.',
    examples: ['Call back about the second engine'],
  }),
  body: wire.Text(10_000, 'What was said or is to be done, as plain text.'),
  contact_id: wire.Nullable(
    wire.Uuid('An existing contact. An activity needs a contact, a company or an opportunity.'),
  ),
  company_id: wire.Nullable(wire.Uuid('An existing company.')),
  opportunity_id: wire.Nullable(wire.Uuid('An existing opportunity.')),
  assigned_to: wire.Nullable(
    wire.Uuid('The responsible user: an id from `GET /api/ext/customer/users`. Null: nobody.'),
  ),
  due_at: wire.Nullable(wire.Instant('When a task has to be done. Other activities have no such time.')),
  done_at: wire.Nullable(
    wire.Instant('When a task was done. Null: it is to be done. Other activities have no such time.'),
  ),
  occurred_at: wire.Instant('When it happened. By default the time at which it is created.'),
  external_id: wire.ExternalId(),
};

export const activityFields = Object.keys(writable) as (keyof typeof writable)[];

export const Activity = wire.Named('Activity', {
  id: wire.Uuid('Id of the activity.'),
  ...writable,
  created_by: Type.Object(wire.Actor().properties, { description: 'Who created it.' }),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
});
export type Activity = Static<typeof Activity>;

export const ActivityCreate = Type.Partial(Type.Object(writable), {
  additionalProperties: false,
  title: 'ActivityCreate',
  description: 'Needs a title or a body, and a contact, a company or an opportunity.',
  examples: [
    {
      type: 'task',
      title: 'Call back about the second engine',
      contact_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
      due_at: '2026-03-31T00:00:00.000Z',
    },
  ],
});
export type ActivityCreate = Static<typeof ActivityCreate>;

export const ActivityPatch = wire.PartialBody('ActivityPatch', [{ done_at: '2026-03-30T14:05:00.000Z' }], writable);
export type ActivityPatch = Static<typeof ActivityPatch>;

export const activityTable = {
  type: { label: 'Type', filter: 'text' },
  title: { label: 'Title', filter: 'text' },
  body: { label: 'Text', filter: 'text' },
  occurred_at: { label: 'When', filter: 'instant', isIndexed: true },
  due_at: { label: 'Due', filter: 'instant' },
  done_at: { label: 'Done', filter: 'instant' },
  created_at: { label: 'Created', filter: 'instant', isIndexed: true },
  updated_at: { label: 'Last changed', filter: 'instant', isIndexed: true },
  id: { label: 'Id', filter: 'uuid', isInternal: true },
  external_id: { label: 'Your own id', filter: 'exact', isInternal: true },
  contact_id: { label: 'Contact', references: 'contacts', filter: 'uuid', isInternal: true },
  company_id: { label: 'Company', references: 'company', filter: 'uuid', isInternal: true },
  opportunity_id: { label: 'Opportunity', references: 'opportunities', filter: 'uuid', isInternal: true },
  assigned_to: { label: 'Assigned to', references: 'users', filter: 'uuid', isInternal: true },
  created_by: { label: 'Created by', isInternal: true },
  is_done: { label: 'Is done', filter: 'boolean', isUnsorted: true, isInternal: true },
  is_overdue: { label: 'Is overdue', filter: 'boolean', isUnsorted: true, isInternal: true },
  company_or_its_contacts: { label: 'Company or its contacts', filter: 'of', isUnsorted: true, isInternal: true },
  search: { label: 'Search', filter: 'search', isUnsorted: true, isInternal: true },
} satisfies wire.FieldTable<keyof Activity>;

export const activityFilterFields = filterFieldsOf('activities', 'Activity', activityTable, false);
const text = [
  textOfFilters('the title or the body'),
  'Only tasks match `is_done` and `is_overdue`, whichever their value. `company_or_its_contacts` is the id of a company, or an array of',
  'ids: it matches activities of the company and of its contacts.',
].join('\n');
const example = { type: 'task', is_done: false };
export const ActivityFilters = Filters(activityFilterFields, text, example);
export const { query: ActivityQuery, count: ActivityCount } = listBodies(activityFilterFields, ActivityFilters, {
  filters: example,
  order: { due_at: 'ASC' },
  orderBy: ['occurred_at', 'type'],
});
