import { Type, type Static } from '@sinclair/typebox';
import { Enum, Instant, Nullable, Strict, Uuid } from '../base/wire.ts';
import { Actor } from './feed.ts';
import { eventNouns, eventSources, recordVerbs, type EventNoun } from './types.ts';

const maxChanges = 100;

export const ChangeQuery = Type.Partial(
  Strict({
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
    paginate: Type.Partial(
      Strict({
        cursor: Type.String({
          maxLength: 255,
          description: 'The value of the header `x-next-cursor` of the previous page.',
        }),
        limit: Type.Integer({ minimum: 1, maximum: maxChanges, default: 25, description: 'Changes of a page.' }),
      }),
      { additionalProperties: false, description: 'Where to continue, and how many changes to return.' },
    ),
  }),
  {
    additionalProperties: false,
    title: 'ChangeQuery',
    examples: [{ filters: { object: 'contact', since: '2026-03-14T09:00:00Z' }, paginate: { limit: 50 } }],
  },
);
export type ChangeQuery = Static<typeof ChangeQuery>;

/** What fields of records can be. */
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

export const Change = Type.Object(
  {
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
  },
  { title: 'Change' },
);
export type Change = Static<typeof Change>;

const countsOf = (noun: EventNoun) =>
  Type.Object(
    Object.fromEntries(
      recordVerbs.map((verb) => [verb, Type.Integer({ description: `Records that were ${verb}.` })]),
    ) as Record<(typeof recordVerbs)[number], ReturnType<typeof Type.Integer>>,
    { description: `Of the kind \`${noun}\`.` },
  );

export const ChangeSummary = Type.Object(
  {
    id: Uuid('Id of the change: of a job or import, its own id.'),
    source: Enum(eventSources, 'What made the change.'),
    actor: Nullable(Actor()),
    occurred_at: Instant('When it began.'),
    counts: Type.Partial(
      Type.Object(
        Object.fromEntries(eventNouns.map((noun) => [noun, countsOf(noun)])) as Record<
          (typeof eventNouns)[number],
          ReturnType<typeof countsOf>
        >,
      ),
      {
        description:
          'What it has changed, by kind of record. Only kinds that the key may read, and that it has changed.',
      },
    ),
    undo_of: Type.Optional(Uuid('Of an undo: the change that it has taken back.')),
    undone_by: Type.Array(Uuid(), { description: 'The jobs that take it back, or have. Each is a change itself.' }),
    undoable: Type.Boolean({ description: 'Whether it can be undone. The undo of a merge cannot.' }),
  },
  { title: 'ChangeSummary' },
);
export type ChangeSummary = Static<typeof ChangeSummary>;
