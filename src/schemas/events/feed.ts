import { Type, type Static } from '@sinclair/typebox';
import { Enum, Instant, Nullable, Strict, Uuid } from '../base/wire.ts';
import { actorTypes, eventSources, eventTypes } from './types.ts';

const maxEvents = 1_000;

export const Actor = () =>
  Type.Object(
    {
      type: Enum(actorTypes, 'An API key, a user, the command line, or the service by itself.'),
      id: Type.Optional(Uuid('Id of the key or user.')),
      name: Type.Optional(Type.String({ description: "A user's e-mail address." })),
    },
    { description: 'Who made the change, or started the job or import. Missing in changes from before 1.1.0.' },
  );

export const Event = Type.Object(
  {
    id: Uuid('Id of the event, the same for every reader.'),
    type: Enum(eventTypes, 'What happened.'),
    occurred_at: Instant('When it happened.'),
    data: Type.Object(
      {
        source: Enum(eventSources, 'What made the change.'),
        actor: Type.Optional(Actor()),
        change_id: Type.Optional(
          Uuid('The same for all events of one call, job or import, of which it is the id. Missing as `actor` is.'),
        ),
        id: Type.Optional(Uuid('Id of the record, job or import.')),
        external_id: Type.Optional(
          Nullable(
            Type.String({
              description: 'Of all records but lists: the id that the record has in another system.',
            }),
          ),
        ),
        changed: Type.Optional(
          Type.Array(Type.String(), {
            description: 'Of an update: names of members of the record, such as `job_title` or `custom_fields.plan`.',
          }),
        ),
        restored: Type.Optional(Type.Boolean({ description: 'True of a record whose deletion was undone.' })),
        merged_into: Type.Optional(
          Uuid('Of a record that was deleted by a merge: the record that has its values now.'),
        ),
      },
      { additionalProperties: true, description: 'What the event tells. Other types of events have further members.' },
    ),
    record: Type.Optional(
      Type.Unsafe<object | null>({
        type: ['object', 'null'],
        additionalProperties: true,
        description: 'With `expand`: the record as its GET shows it now. Null: it is gone, or the event has none.',
      }),
    ),
  },
  { title: 'Event' },
);
export type Event = Static<typeof Event>;

export const EventQuery = Type.Partial(
  Type.Object({
    types: Type.Array(Enum(eventTypes), {
      minItems: 1,
      maxItems: 100,
      description: 'Only events of these types. By default all that the key may read.',
    }),
    from: Type.String({
      format: 'feed-start',
      maxLength: 64,
      description:
        'Where to begin without a cursor: at the oldest event that is kept (`start`, the default), behind the newest ' +
        '(`now`), or at a time. At a time, earlier events may come first.',
      examples: ['now'],
    }),
    paginate: Type.Partial(
      Strict({
        cursor: Type.String({
          maxLength: 255,
          description: 'The value of the header `x-next-cursor` of the previous page.',
        }),
        limit: Type.Integer({ minimum: 1, maximum: maxEvents, default: 100, description: 'Events of a page.' }),
      }),
      { additionalProperties: false, description: 'Where to continue, and how many events to return.' },
    ),
    wait: Type.Integer({
      minimum: 0,
      maximum: 20,
      description: 'When there is nothing to read: how long to wait for the next event, in seconds. By default 0.',
    }),
    expand: Type.Boolean({ description: 'Whether each event shows its record as it is now. By default false.' }),
  }),
  {
    additionalProperties: false,
    title: 'EventQuery',
    examples: [
      { types: ['contact.created', 'contact.updated', 'contact.deleted'], paginate: { limit: 500 }, wait: 20 },
    ],
  },
);
export type EventQuery = Static<typeof EventQuery>;
