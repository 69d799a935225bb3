import { OptionalKind, Type, type Static, type TObject, type TSchema, type TUnsafe } from '@sinclair/typebox';
import { Activity, ActivityCreate, ActivityPatch } from './activities.ts';
import { Company, CompanyCreate, CompanyPatch } from './companies.ts';
import { ContactCreate, ContactDetail, ContactPatch } from './contacts.ts';
import { LinesOrPatch, OpportunityCreate, Opportunity, OpportunityPatch } from './opportunities.ts';
import { Product, ProductCreate, ProductPatch } from './products.ts';
import { Domain, Email, Enum, ErrorBody, FaultList, Strict, Uuid, Body, Described } from './wire.ts';

export type BatchOperation = 'create' | 'update' | 'upsert' | 'delete' | 'read';

const matchSchemas = {
  id: Uuid('Id of the record. It names the record if `match` is `id`.'),
  external_id: Type.String({
    minLength: 1,
    maxLength: 255,
    description: "The caller's own id of the record. It names the record if `match` is `external_id`.",
    examples: ['crm-4711'],
  }),
  domain: Domain('Domain of the company. It names the record if `match` is `domain`.'),
  work_email: Email('E-mail address at work. It names the record if `match` is `work_email`.'),
} as const satisfies Record<string, TSchema>;

export type MatchField = keyof typeof matchSchemas;

export const referringMembers = {
  company_id: 'company',
  contact_id: 'contact',
  opportunity_id: 'opportunity',
  contacts_ids: 'contact',
  products: 'product',
  stage_id: 'stage',
  user_id_assigned: 'user',
} as const;

const OwnId = Strict(
  { external_id: matchSchemas.external_id },
  { title: 'ReferenceByExternalId', description: "The caller's own id of the record, instead of its id." },
);
const StageByName = Strict(
  {
    pipeline: Type.String({ minLength: 1, maxLength: 255, description: 'Name of the pipeline.' }),
    stage: Type.String({ minLength: 1, maxLength: 255, description: 'Name of the stage.' }),
  },
  { title: 'StageByName', description: 'The names of a stage and its pipeline, without regard to case and accents.' },
);

const UserByEmail = Strict(
  { email: Email('E-mail address of a user of the application.') },
  { title: 'UserByEmail', description: 'The e-mail address of a user, instead of the id.' },
);
const others: Record<string, TSchema> = { stage: StageByName, user: UserByEmail };

/** Returns the schema of a body in which members can refer to records by id or by another value. */
function withReferences({ properties, ...schema }: TObject): TObject {
  const members = Object.entries(properties).map(([name, member]) => {
    const noun = referringMembers[name as keyof typeof referringMembers] as string | undefined;
    return [name, noun === undefined ? member : orOther(member, others[noun] ?? OwnId)];
  });
  return { ...schema, properties: Object.fromEntries(members) as TObject['properties'] };
}

function orOther(schema: TSchema, other: TSchema): TSchema {
  const { format, items, properties, anyOf, title, description } = schema;
  const named = { ...schema, ...(title !== undefined && { title: `${title}ByReference` }) };
  if (format === 'uuid') {
    const union = Type.Union([schema, other], { ...(description && { description }) });
    return schema[OptionalKind] ? Type.Optional(union) : union;
  }
  if (items) return { ...named, items: orOther(items as TSchema, other) };
  if (anyOf) return { ...named, anyOf: (anyOf as TSchema[]).map((one) => orOther(one, other)) };
  if (!properties) return schema;
  const changed = Object.entries(properties as TObject['properties']).map(([name, one]) => [name, orOther(one, other)]);
  return { ...named, properties: Object.fromEntries(changed) as TObject['properties'] };
}

export interface BatchKind {
  readonly noun: 'contact' | 'company' | 'product' | 'opportunity' | 'activity';
  /** Prefix of the titles of schemas, such as `Contact` in `ContactBatchCreate`. */
  readonly title: string;
  readonly create: TObject;
  readonly patch: TObject;
  readonly shown: TObject;
  readonly matches: readonly MatchField[];
  /**
   * Groups of fields. A new record needs at least one field of each group, in addition to the required fields of
   * `create`.
   */
  readonly needsOneOf?: readonly (readonly string[])[];
  readonly mayPurge?: true;
}

export const contactBatches: BatchKind = {
  noun: 'contact',
  title: 'Contact',
  create: Type.Partial(ContactCreate, {
    additionalProperties: false,
    title: 'ContactBatchCreateItem',
    description:
      'Needs one of `work_email`, `external_id`, `profnet_url` and a phone number, and a name or `work_email`.',
    examples: ContactCreate['examples'],
  }),
  patch: ContactPatch,
  shown: ContactDetail,
  matches: ['id', 'external_id', 'work_email'],
  needsOneOf: [
    ['work_email', 'external_id', 'profnet_url', 'phone_numbers', 'mobile_phone'],
    ['first_name', 'last_name', 'work_email'],
  ],
  mayPurge: true,
};

export const companyBatches: BatchKind = {
  noun: 'company',
  title: 'Company',
  create: Type.Partial(CompanyCreate, {
    additionalProperties: false,
    title: 'CompanyBatchCreateItem',
    description: 'Needs `company_name` or `domain`. A company without a name is named by its domain.',
    examples: CompanyCreate['examples'],
  }),
  patch: CompanyPatch,
  shown: Company,
  matches: ['id', 'external_id', 'domain'],
  needsOneOf: [['company_name', 'domain']],
  mayPurge: true,
};

export const activityBatches: BatchKind = {
  noun: 'activity',
  title: 'Activity',
  create: withReferences({ ...ActivityCreate, title: 'ActivityBatchCreateItem' }),
  patch: withReferences(ActivityPatch),
  shown: Activity,
  matches: ['id', 'external_id'],
};

export const productBatches: BatchKind = {
  noun: 'product',
  title: 'Product',
  create: ProductCreate,
  patch: ProductPatch,
  shown: Product,
  matches: ['id', 'external_id'],
};

const { priority, contacts_ids, products, ...needed } = OpportunityCreate.properties;

export const opportunityBatches: BatchKind = {
  noun: 'opportunity',
  title: 'Opportunity',
  create: withReferences(
    Type.Object(
      { ...needed, ...Type.Partial(Type.Object({ priority, contacts_ids, products })).properties },
      {
        additionalProperties: false,
        title: 'OpportunityBatchCreateItem',
        description: 'By default `priority` is `NONE`, and there are no contacts and products.',
        examples: OpportunityCreate['examples'],
      },
    ),
  ),
  patch: withReferences(
    Type.Object(
      { ...OpportunityPatch.properties, products: Type.Optional(LinesOrPatch) },
      { examples: OpportunityPatch['examples'] },
    ),
  ),
  shown: Opportunity,
  matches: ['id', 'external_id'],
};

export const maxBatchItems = 1_000;

export const maxBatchBytes = 5 * 1024 * 1024;

export const maxBatchFaults = { ofItem: 10, inAll: 1_000 };

/**
 * Returns the fields by which an item can identify a record. `create` has none. `upsert` has no `id`, because callers
 * cannot choose the id of a new record.
 */
export const matchesOf = ({ matches }: BatchKind, operation: BatchOperation): MatchField[] => {
  if (operation === 'create') return [];
  return matches.filter((match) => operation !== 'upsert' || match !== 'id');
};

export function batchItem({ create, patch }: BatchKind, operation: BatchOperation, match: MatchField): TObject {
  if (operation === 'create') return create;
  const member = { [match]: matchSchemas[match] };
  return operation === 'update' || operation === 'upsert' ? Strict({ ...patch.properties, ...member }) : Strict(member);
}

export interface BatchBody {
  items: unknown[];
  match?: MatchField;
  atomic?: boolean;
  purge?: boolean;
}

export function batchBody(kind: BatchKind, operation: BatchOperation): TUnsafe<BatchBody> {
  const matches = matchesOf(kind, operation);
  const [example] = matches;
  return Type.Unsafe<BatchBody>(
    Body(
      titleOf(kind, operation),
      [{ items: exampleItems(kind, operation), ...(operation === 'upsert' ? { match: example } : {}) }],
      {
        items: Items(kind, operation),
        ...(matches.length > 0 ? { match: Match(matches, operation) } : {}),
        ...(operation === 'read' ? {} : { atomic: Type.Optional(Atomic()) }),
        ...(operation === 'delete' && kind.mayPurge ? { purge: Type.Optional(Purge()) } : {}),
      },
    ),
  );
}

const titleOf = ({ title }: BatchKind, operation: BatchOperation): string =>
  `${title}Batch${operation[0]!.toUpperCase()}${operation.slice(1)}`;

/**
 * Returns the schema of the items of a batch. It limits only their number; each item is validated later, on its own.
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
  return Type.Partial(Type.Object({ ...members, ...fields }), {
    additionalProperties: false,
    title: `${titleOf(kind, operation)}Item`,
  });
}

export const batchText =
  'The response is 200 with one result for each item, in the order of the items. A failed item writes nothing and does ' +
  'not stop the others. With `atomic`, one failed item means that nothing is written: the response is then the error of ' +
  'the first failed item.';

const itemTexts: Record<BatchOperation, string> = {
  create:
    'Each item has the fields of the call that creates one record, of which fewer are required. An invalid item fails alone.',
  update:
    'Each item has the fields of the PATCH of one record, and the field that `match` names. That field is not changed.',
  upsert:
    'Each item has the fields of the PATCH of one record, and the field that `match` names. A record that has this ' +
    'value is changed. If there is none, it is created; then the item needs what an item of the batch create needs. ' +
    'What an item leaves out is not changed.',
  delete: 'Each item has only the field that `match` names.',
  read: 'Each item has only the field that `match` names.',
};

const Match = (matches: MatchField[], operation: BatchOperation): TSchema => {
  const folded = matches.includes('work_email') ? ' `work_email` is compared without regard to case and accents.' : '';
  const description = `The field of each item that names its record.${folded}`;
  return operation === 'upsert'
    ? Enum(matches, { description })
    : Type.Optional(Enum(matches, { description, default: 'id' }));
};

const Atomic = () =>
  Type.Boolean({
    default: false,
    description:
      'If true, one failed item means that nothing is written. The response is then the error of the first failed ' +
      'item, with the faults of all items.',
  });

const Purge = () =>
  Type.Boolean({
    default: false,
    description:
      'If true, the records are removed for good: nothing brings them back. A record that is deleted already can be ' +
      'named by its id, as long as its deletion is kept in the history.',
  });

function exampleItems({ create, patch }: BatchKind, operation: BatchOperation): unknown[] {
  const id = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
  const created = create['examples'] as object[];
  if (operation === 'create') return created;
  if (operation === 'upsert') return created.map((item, i) => ({ external_id: `crm-${i + 1}`, ...item }));
  const [change] = patch['examples'] as object[];
  return [operation === 'update' ? { id, ...change } : { id }];
}

export const batchStatuses = ['created', 'updated', 'unchanged', 'deleted', 'found', 'failed'] as const;
type BatchStatus = (typeof batchStatuses)[number];

const countTexts: Record<BatchStatus, string> = {
  created: 'Items whose record was created.',
  updated: 'Items whose record was changed.',
  unchanged: 'Items that changed nothing, because their record has these values already.',
  deleted: 'Items whose record was deleted.',
  found: 'Items whose record is in the response.',
  failed: 'Items that failed. They wrote nothing.',
};

const MatchingIds = () =>
  Type.Optional(
    Type.Array(Uuid(), { description: 'Up to 10 of the records that have the value, if there are several.' }),
  );

export const BatchConflict = Type.Composite([ErrorBody, Type.Object({ matching_ids: MatchingIds() })], {
  title: 'BatchConflict',
});

const ItemError = Type.Object(
  {
    code: Type.String({
      description: 'The kind of error, for programs, as in error responses.',
      examples: ['validation_failed'],
    }),
    message: Type.String({ description: 'What is wrong, for people. The text can change; do not parse it.' }),
    errors: Type.Optional(
      FaultList('the item', {
        description:
          `Every invalid value of the item, at most ${maxBatchFaults.ofItem}; of all items together at most ` +
          `${maxBatchFaults.inAll}.`,
      }),
    ),
    matching_ids: MatchingIds(),
  },
  { title: 'BatchItemError', description: 'Why the item failed. Absent if it did not.' },
);

export const batchAnswer = (kind: BatchKind, operation: BatchOperation) => {
  const description = 'The record, as GET returns it. Absent if the item failed.';
  const record =
    operation === 'read' ? { record: Type.Optional(Type.Unsafe<object>({ ...kind.shown, description })) } : {};
  return Type.Object(
    {
      success: Type.Boolean({ description: 'Whether no item failed.' }),
      message: Type.String({ description: 'What was done, for people. Do not parse it.' }),
      data: Described('What became of the items.', {
        counts: Type.Object(
          Object.fromEntries(
            batchStatuses.map((status) => [status, Type.Integer({ description: countTexts[status] })]),
          ) as Record<BatchStatus, ReturnType<typeof Type.Integer>>,
          { description: 'Number of items by status.' },
        ),
        results: Type.Array(
          Type.Object({
            index: Type.Integer({ description: 'Index of the item. The first is 0.' }),
            status: Enum(batchStatuses, 'What became of the item.'),
            id: Type.Optional(Uuid('Id of the record. Absent if the item failed.')),
            ...record,
            error: Type.Optional(ItemError),
          }),
          { description: 'One result for each item, in the same order.' },
        ),
      }),
    },
    { title: operation === 'read' ? `${kind.title}BatchRecords` : 'BatchAnswer' },
  );
};
export type BatchAnswer = Static<ReturnType<typeof batchAnswer>>;
