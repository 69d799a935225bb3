import { Type, type Static } from '@sinclair/typebox';
import { pools } from './credits.ts';
import { Enum, Instant, Nullable, Uuid } from './wire.ts';

/** What jobs do. */
export const jobTypes = ['unlock_contacts', 'unlock_selected_contacts', 'verify_email', 'verify_list'] as const;
export type JobType = (typeof jobTypes)[number];

/** `PENDING → PROCESSING → COMPLETED | FAILED | CANCELLED`. A job some of whose items failed is COMPLETED. */
export const jobStatuses = ['PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type JobStatus = (typeof jobStatuses)[number];

/** The states that a job stays in. */
export const finalStatuses = ['COMPLETED', 'FAILED', 'CANCELLED'] as const satisfies readonly JobStatus[];
export type FinalStatus = (typeof finalStatuses)[number];

/** What became of an item. */
export const itemStatuses = ['succeeded', 'failed', 'skipped'] as const;
export type ItemStatus = (typeof itemStatuses)[number];

/** Why an item was skipped; one that failed gives the cause of its failure. */
export const skipReasons = ['already_unlocked', 'duplicate', 'cancelled'] as const;
export const failReasons = ['not_found'] as const;
export type ItemReason = (typeof skipReasons)[number] | (typeof failReasons)[number];

/** A job: how far it is, and what it cost. */
export const Job = Type.Object(
  {
    id: Uuid(),
    type: Enum(jobTypes),
    status: Enum(jobStatuses),
    sync_crm: Type.Boolean(),
    total: Type.Integer({ description: 'items that it has to do, as far as was known when it began' }),
    processed: Type.Integer({ description: 'succeeded + failed + skipped' }),
    succeeded: Type.Integer(),
    failed: Type.Integer(),
    skipped: Type.Integer(),
    credits: Type.Object({
      pool: Enum(pools),
      reserved: Type.Integer({ description: 'what the start reserved' }),
      charged: Type.Integer(),
      refunded: Type.Integer({ description: 'what was left at the end; then reserved = charged + refunded' }),
    }),
    error: Nullable(Type.String({ description: 'why it failed' })),
    created_at: Instant(),
    started_at: Nullable(Instant()),
    finished_at: Nullable(Instant()),
  },
  { title: 'ServiceJob' },
);
export type Job = Static<typeof Job>;

/** What became of one of the things that a job was given, or found. */
export const JobItem = Type.Object(
  {
    item: Type.String({ description: 'the id of a prospect, or an e-mail address' }),
    contact_id: Nullable(Uuid()),
    status: Enum(itemStatuses),
    reason: Nullable(Enum([...skipReasons, ...failReasons])),
    charged: Type.Integer(),
    result: Nullable(
      Type.Object({}, { additionalProperties: true, description: 'the unlocked prospect, or the verification' }),
    ),
    finished_at: Instant(),
  },
  { title: 'ServiceJobItem' },
);
export type JobItem = Static<typeof JobItem>;

/** Answer of the calls that start a job, as the contract has it. */
export const JobStarted = Type.Object({ id: Uuid(), status: Enum(jobStatuses) }, { title: 'ServiceHandler' });
export type JobStarted = Static<typeof JobStarted>;
