import { Type, type Static, type TObject, type TSchema, type TUnsafe } from '@sinclair/typebox';
import { Company, CompanyCreate, CompanyPatch } from './companies.ts';
import { ContactCreate, ContactDetail, ContactPatch } from './contacts.ts';
import { Email, Enum, ErrorBody, Strict, Uuid } from './wire.ts';

/** What a batch does with its items. */
export type BatchOperation = 'create' | 'update' | 'upsert' | 'delete' | 'read';

/** The fields by which an item of a batch can name its record, with the schema of their values. */
const matchSchemas = {
  id: Uuid(),
  external_id: Type.String({ minLength: 1, maxLength: 255, examples: ['crm-4711'] }),
  work_email: Email(),
} as const satisfies Record<string, TSchema>;

/** Name of a field by which an item of a batch names its record. */
export type MatchField = keyof typeof matchSchemas;

/** A kind of record that batches work on. */
export interface BatchKind {
  readonly noun: 'contact' | 'company';
  /** Start of the titles of its schemas, such as `Contact`. */
  readonly title: string;
  /** The request body of the call that creates one record. */
  readonly create: TObject;
  /** The request body of the call that changes one record (PATCH). */
  readonly patch: TObject;
  /** One record, as responses show it. */
  readonly shown: TObject;
  /** The fields by which items can name a record. */
  readonly matches: readonly MatchField[];
}

export const contactBatches: BatchKind = {
  noun: 'contact',
  title: 'Contact',
  create: ContactCreate,
  patch: ContactPatch,
  shown: ContactDetail,
  matches: ['id', 'external_id', 'work_email'],
};

export const companyBatches: BatchKind = {
  noun: 'company',
  title: 'Company',
  create: CompanyCreate,
  patch: CompanyPatch,
  shown: Company,
  matches: ['id', 'external_id'],
};

/** Maximum number of items in a batch. */
export const maxBatchItems = 1_000;

/** Maximum size of the body of a batch (bytes). */
export const maxBatchBytes = 5 * 1024 * 1024;

/** Maximum numbers of faults that the answer to a batch lists: of one item, and of all items together. */
export const maxBatchFaults = { ofItem: 10, inAll: 1_000 };

/**
 * Returns the fields by which the items of a batch can name their records. An upsert cannot use `id`, because only the
 * database creates ids. Empty for `create`.
 */
export const matchesOf = ({ matches }: BatchKind, operation: BatchOperation): MatchField[] => {
  if (operation === 'create') return [];
  return matches.filter((match) => operation !== 'upsert' || match !== 'id');
};

/** Returns the schema of one item of a batch. */
export function batchItem({ create, patch }: BatchKind, operation: BatchOperation, match: MatchField): TObject {
  if (operation === 'create') return create;
  const member = { [match]: matchSchemas[match] };
  return operation === 'update' || operation === 'upsert' ? Strict({ ...patch.properties, ...member }) : Strict(member);
}

/** The request body of a batch. The items are validated one by one (validation/batch-items.ts). */
export interface BatchBody {
  items: unknown[];
  match?: MatchField;
  atomic?: boolean;
}

/** Returns the schema of the request body of a batch. */
export function batchBody(kind: BatchKind, operation: BatchOperation): TUnsafe<BatchBody> {
  const matches = matchesOf(kind, operation);
  const [example] = matches;
  return Type.Unsafe<BatchBody>(
    Strict(
      {
        items: Items(kind, operation),
        ...(matches.length > 0 ? { match: Match(matches, operation) } : {}),
        ...(operation === 'read' ? {} : { atomic: Type.Optional(Atomic()) }),
      },
      {
        title: `${kind.title}Batch${operation[0]!.toUpperCase()}${operation.slice(1)}`,
        examples: [{ items: exampleItems(kind, operation), ...(operation === 'upsert' ? { match: example } : {}) }],
      },
    ),
  );
}

/**
 * Returns the schema of the items. `x-batch-items` describes one item in the documentation and is not validated with the
 * body, because an invalid item does not make the batch invalid.
 */
const Items = (kind: BatchKind, operation: BatchOperation): TUnsafe<unknown[]> =>
  Type.Unsafe<unknown[]>({
    type: 'array',
    minItems: 1,
    maxItems: maxBatchItems,
    'x-batch-items': documentedItem(kind, operation),
    description: itemTexts[operation],
  });

function documentedItem(kind: BatchKind, operation: BatchOperation): TObject {
  if (operation === 'create') return kind.create;
  const matches = matchesOf(kind, operation);
  const members = Object.fromEntries(matches.map((match) => [match, matchSchemas[match]]));
  const fields = operation === 'update' || operation === 'upsert' ? kind.patch.properties : {};
  return Type.Partial(Type.Object({ ...fields, ...members }), { additionalProperties: false });
}

const itemTexts: Record<BatchOperation, string> = {
  create: 'Each item is the body of the call that creates one record. An invalid item fails alone.',
  update: 'Each item is the body of the PATCH of one record, and the member that `match` names. It is not changed.',
  upsert:
    'Each item has the members of the PATCH of one record, and the member that `match` names. A record that has this ' +
    'value is changed. If there is none, it is created; then the item needs what creating requires.',
  delete: 'Each item has the member that `match` names.',
  read: 'Each item has the member that `match` names.',
};

const Match = (matches: MatchField[], operation: BatchOperation): TSchema => {
  const description =
    'the member of each item that names its record; `work_email` is compared without regard to case and accents';
  return operation === 'upsert'
    ? Enum(matches, { description })
    : Type.Optional(Enum(matches, { description, default: 'id' }));
};

const Atomic = () =>
  Type.Boolean({ default: false, description: 'if true, one failed item means that nothing is written' });

function exampleItems({ create }: BatchKind, operation: BatchOperation): unknown[] {
  const id = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  if (operation === 'create' || operation === 'upsert') return create['examples'] as unknown[];
  return [operation === 'update' ? { id, industry: 'Computing' } : { id }];
}

/** What became of an item. */
export const batchStatuses = ['created', 'updated', 'unchanged', 'deleted', 'found', 'failed'] as const;
export type BatchStatus = (typeof batchStatuses)[number];

const MatchingIds = () =>
  Type.Optional(
    Type.Array(Uuid(), { description: 'up to 10 of the records that have the value, if there are several' }),
  );

/** Response body of status 409 of a batch: that of all errors, and the records that an item could mean. */
export const BatchConflict = Type.Composite([ErrorBody, Type.Object({ matching_ids: MatchingIds() })], {
  title: 'BatchConflict',
});

const ItemError = Type.Object(
  {
    code: Type.String({ examples: ['validation_failed'] }),
    message: Type.String(),
    errors: Type.Optional(
      Type.Array(Type.Object({ path: Type.String(), message: Type.String() }), {
        description: 'at most 10 of an item and 1,000 of a batch; pointers within the item',
      }),
    ),
    matching_ids: MatchingIds(),
  },
  { title: 'BatchItemError' },
);

/** Returns the schema of the answer to a batch. Only the answer to `read` contains records. */
export const batchAnswer = (kind: BatchKind, operation: BatchOperation) => {
  const record = operation === 'read' ? { record: Type.Optional(Type.Unsafe<object>(kind.shown)) } : {};
  return Type.Object(
    {
      success: Type.Boolean({ description: 'whether no item failed' }),
      message: Type.String(),
      data: Type.Object({
        counts: Type.Object(
          Object.fromEntries(batchStatuses.map((status) => [status, Type.Integer()])) as Record<
            BatchStatus,
            ReturnType<typeof Type.Integer>
          >,
        ),
        results: Type.Array(
          Type.Object({
            index: Type.Integer({ description: 'index of the item' }),
            status: Enum(batchStatuses),
            id: Type.Optional(Uuid()),
            ...record,
            error: Type.Optional(ItemError),
          }),
          { description: 'one result for each item, in the same order' },
        ),
      }),
    },
    { title: operation === 'read' ? `${kind.title}BatchRecords` : 'BatchAnswer' },
  );
};
export type BatchAnswer = Static<ReturnType<typeof batchAnswer>>;
