import { Type, type Static } from '@sinclair/typebox';
import { jobScopes } from './jobs.ts';
import { recordScopes, type Scope } from './scopes.ts';
import { Actor, Enum, Instant, Nullable, Strict, Uuid, Flag, Named, PartialBody } from './wire.ts';

export const eventNouns = ['contact', 'company', 'list', 'product', 'opportunity', 'activity'] as const;
export type EventNoun = (typeof eventNouns)[number];

export const recordVerbs = ['created', 'updated', 'deleted'] as const;
export type RecordVerb = (typeof recordVerbs)[number];

export const recordTypes = eventNouns.flatMap((noun) => recordVerbs.map((verb) => `${noun}.${verb}` as const));

export const eventTypes = [
  ...recordTypes,
  'job.ended',
  'import.ended',
  'credits.low',
  'prospect.removed',
] as const satisfies readonly string[];
export type EventType = (typeof eventTypes)[number];

const eventSources = ['api', 'page', 'import', 'job', 'command'] as const;
export type EventSource = (typeof eventSources)[number];

export type EventActor = Static<ReturnType<typeof Actor>>;

const recordReaders = Object.fromEntries(
  eventNouns.flatMap((noun) => recordVerbs.map((verb) => [`${noun}.${verb}`, [`${recordScopes[noun]}:read`]])),
) as Record<(typeof recordTypes)[number], [Scope]>;

/**
 * Scopes that let a key see events, by type of event. One of them is enough. Events of jobs and imports also require
 * access to the job or import.
 */
export const eventReaders = {
  ...recordReaders,
  'job.ended': jobScopes,
  'import.ended': ['contacts:create', 'contacts:update', 'companies:create', 'companies:update'],
  'credits.low': ['customer:read'],
  'prospect.removed': ['prospect:read'],
} as const satisfies Record<EventType, readonly Scope[]>;

/** Returns the event types of which a key with these scopes sees every event. */
export const whollyReadableEvents = (scopes: readonly Scope[]): EventType[] =>
  eventTypes.filter((type) => (eventReaders[type] as readonly Scope[]).every((scope) => scopes.includes(scope)));

export const readableEvents = (scopes: readonly Scope[]): EventType[] =>
  eventTypes.filter((type) => (eventReaders[type] as readonly Scope[]).some((scope) => scopes.includes(scope)));

const maxEvents = 1_000;

export const Event = Named('Event', {
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
      merged_into: Type.Optional(Uuid('Of a record that was deleted by a merge: the record that has its values now.')),
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
});
export type Event = Static<typeof Event>;

const PageOfFeed = (items: 'events' | 'changes', sizes: { maximum: number; default: number }) =>
  Type.Partial(
    Strict({
      cursor: Type.String({
        maxLength: 255,
        description: 'The value of the header `x-next-cursor` of the previous page.',
      }),
      limit: Type.Integer({
        minimum: 1,
        ...sizes,
        description: `${items === 'events' ? 'Events' : 'Changes'} of a page.`,
      }),
    }),
    { additionalProperties: false, description: `Where to continue, and how many ${items} to return.` },
  );

export const EventQuery = PartialBody(
  'EventQuery',
  [{ types: ['contact.created', 'contact.updated', 'contact.deleted'], paginate: { limit: 500 }, wait: 20 }],
  {
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
    paginate: PageOfFeed('events', { maximum: maxEvents, default: 100 }),
    wait: Type.Integer({
      minimum: 0,
      maximum: 20,
      description: 'When there is nothing to read: how long to wait for the next event, in seconds. By default 0.',
    }),
    expand: Type.Boolean({ description: 'Whether each event shows its record as it is now. By default false.' }),
  },
);
export type EventQuery = Static<typeof EventQuery>;

const maxChanges = 100;

export const ChangeQuery = PartialBody(
  'ChangeQuery',
  [{ filters: { object: 'contact', since: '2026-03-14T09:00:00Z' }, paginate: { limit: 50 } }],
  {
    filters: Type.Partial(
      Strict({
        object: Enum(eventNouns, 'Only changes of records of this kind. By default all that the key may read.'),
        record_id: Uuid('Only changes of this record.'),
        change_id: Uuid('Only what one call, job or import has changed.'),
        actor_id: Uuid('Only what this key or user has changed.'),
        source: Enum(eventSources, 'Only what was changed this way.'),
        since: Instant('Only changes at this time or later.'),
        until: Instant('Only changes before this time.'),
      }),
      { additionalProperties: false, description: 'Which changes. A change must match all.' },
    ),
    paginate: PageOfFeed('changes', { maximum: maxChanges, default: 25 }),
  },
);
export type ChangeQuery = Static<typeof ChangeQuery>;

const anyValue = [
  { type: 'null' },
  { type: 'string' },
  { type: 'number' },
  { type: 'boolean' },
  { type: 'array', items: { type: 'string' } },
  { type: 'array', items: { type: 'object', additionalProperties: true } },
];

const ChangeId = () => Nullable(Uuid('The same for all that one call, job or import has changed. Null before 1.1.0.'));

export const FieldChanges = (description: string) =>
  Type.Record(
    Type.String(),
    Type.Unsafe<[before: unknown, after: unknown]>({
      type: 'array',
      items: { anyOf: anyValue },
      minItems: 2,
      maxItems: 2,
    }),
    { description },
  );

export const Change = Named('Change', {
  position: Type.Integer({ description: 'Place in the order of all changes of the customer.' }),
  object: Enum(eventNouns, 'What kind of record.'),
  record_id: Uuid('Id of the record.'),
  type: Enum(recordVerbs, 'What happened with it.'),
  occurred_at: Instant('When it happened.'),
  source: Enum(eventSources, 'What made the change.'),
  actor: Nullable(Actor()),
  change_id: ChangeId(),
  fields: FieldChanges(
    'The values before and after, by field, such as `job_title`, `company` (its id) or `custom_fields.plan`. Of a ' +
      'created record what was not empty, with null before; of a deleted one the reverse.',
  ),
  merged_into: Type.Optional(Uuid('Of a record that was deleted by a merge: the record that has its values now.')),
});
export type Change = Static<typeof Change>;

const countsOf = (noun: EventNoun) =>
  Type.Object(
    Object.fromEntries(
      recordVerbs.map((verb) => [verb, Type.Integer({ description: `Records that were ${verb}.` })]),
    ) as Record<RecordVerb, ReturnType<typeof Type.Integer>>,
    { description: `Of the kind \`${noun}\`.` },
  );

export const ChangeSummary = Named('ChangeSummary', {
  id: Uuid('Id of the change: of a job or import, its own id.'),
  source: Enum(eventSources, 'What made the change.'),
  actor: Nullable(Actor()),
  occurred_at: Instant('When it began.'),
  counts: Type.Partial(
    Type.Object(
      Object.fromEntries(eventNouns.map((noun) => [noun, countsOf(noun)])) as Record<
        EventNoun,
        ReturnType<typeof countsOf>
      >,
    ),
    {
      description: 'What it has changed, by kind of record. Only kinds that the key may read, and that it has changed.',
    },
  ),
  undo_of: Type.Optional(Uuid('Of an undo: the change that it has taken back.')),
  undone_by: Type.Array(Uuid(), { description: 'The jobs that take it back, or have. Each is a change itself.' }),
  undoable: Type.Boolean({ description: 'Whether it can be undone. The undo of a merge cannot.' }),
});
export type ChangeSummary = Static<typeof ChangeSummary>;

export const DigestQuery = PartialBody('DigestQuery', [{ buckets: 256 }], {
  buckets: Type.Integer({
    minimum: 1,
    maximum: 4_096,
    default: 64,
    description: 'Number of buckets. By default 64.',
  }),
  bucket: Type.Integer({ minimum: 0, maximum: 4_095, description: 'Only this bucket, with its records.' }),
});

export const Digest = Named('Digest', {
  cursor: Type.String({ description: 'The place in the feed of changes of which this is the digest.' }),
  buckets: Type.Array(
    Type.Object({
      bucket: Type.Integer({
        description: "The first 12 bits of the SHA-256 of the id's 16 bytes, modulo the number of buckets.",
      }),
      count: Type.Integer({ description: 'Number of records.' }),
      hash: Type.String({
        description:
          'The XOR, over all records, of the first 8 bytes of the SHA-256 of the id (16 bytes) and `updated_at` (as ' +
          'text), in hexadecimal.',
      }),
      records: Type.Optional(
        Type.Array(Type.Object({ id: Uuid('Id of the record.'), updated_at: Instant('When it was last changed.') }), {
          description: 'Its records, by id, if the request names the bucket.',
        }),
      ),
    }),
    { description: 'All buckets, or the one that the request names.' },
  ),
});

export const UndoRequest = Strict(
  { dry_run: Flag('Only count what would be restored; change nothing.') },
  { title: 'UndoRequest', examples: [{ dry_run: true }] },
);

export const UndoEstimate = Type.Object(
  {
    records: Type.Integer({ description: 'Records that the change has written.' }),
    restored: Type.Integer({ description: 'Records of which something would be restored.' }),
    kept: Type.Integer({
      description: 'Records of which something would be kept: they, or a field, stay as they are.',
    }),
    conflicts: Type.Integer({ description: 'Records whose `external_id` another record has by now.' }),
  },
  {
    title: 'UndoEstimate',
    description:
      'What the undo would do now. For a change of more than 1,000 records, and while others write them, the numbers are estimates: a record that ' +
      'was updated since counts as kept, and one that was not written since as restored.',
  },
);
export type UndoEstimate = Static<typeof UndoEstimate>;
