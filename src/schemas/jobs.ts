import { Type, type Static } from '@sinclair/typebox';
import { pools } from './credits.ts';
import { PaginateOrContinue } from './filters.ts';
import { Prospect, ProspectQuery } from './prospects.ts';
import type { Scope } from './scopes.ts';
import { Verification } from './verification.ts';
import { Enum, Instant, Nullable, Paginate, Strict, Uuid } from './wire.ts';

/** Types of the jobs that customers can start. */
export const jobTypes = ['unlock_contacts', 'unlock_selected_contacts', 'verify_email', 'verify_list'] as const;
export type JobType = (typeof jobTypes)[number];

/** For each type of job, the scopes that allow reading such jobs. The same scopes allow starting them. */
export const jobReaders = {
  unlock_contacts: ['payment_prospect:create'],
  unlock_selected_contacts: ['payment_prospect:create'],
  verify_email: ['verify_email:create'],
  verify_list: ['list_contacts:read', 'verify_email:create'],
} as const satisfies Record<JobType, readonly Scope[]>;

/**
 * Statuses of a job: `PENDING → PROCESSING → COMPLETED | FAILED | CANCELLED`. A job is COMPLETED even if some of its
 * items failed.
 */
export const jobStatuses = ['PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type JobStatus = (typeof jobStatuses)[number];

/** Statuses of a job that has ended. Such a status never changes again. */
export const finalStatuses = ['COMPLETED', 'FAILED', 'CANCELLED'] as const satisfies readonly JobStatus[];
export type FinalStatus = (typeof finalStatuses)[number];

/** Possible outcomes of one item of a job. */
export const itemStatuses = ['succeeded', 'failed', 'skipped'] as const;
export type ItemStatus = (typeof itemStatuses)[number];

/** Reasons why a job skipped an item. */
export const skipReasons = ['already_unlocked', 'duplicate', 'cancelled'] as const;
export const failReasons = ['not_found'] as const;
export type ItemReason = (typeof skipReasons)[number] | (typeof failReasons)[number];

/** A job with its progress and its cost. */
export const Job = Type.Object(
  {
    id: Uuid(),
    type: Enum(jobTypes),
    status: Enum(jobStatuses),
    sync_crm: Type.Boolean(),
    total: Type.Integer({ description: 'number of items, as known when the job began' }),
    processed: Type.Integer({ description: 'succeeded + failed + skipped' }),
    succeeded: Type.Integer(),
    failed: Type.Integer(),
    skipped: Type.Integer(),
    credits: Type.Object({
      pool: Enum(pools),
      reserved: Type.Integer({ description: 'credits reserved at the start' }),
      charged: Type.Integer(),
      refunded: Type.Integer({ description: 'credits released at the end; then reserved = charged + refunded' }),
    }),
    error: Nullable(Type.String({ description: 'why the job failed' })),
    created_at: Instant(),
    started_at: Nullable(Instant()),
    finished_at: Nullable(Instant()),
  },
  { title: 'ServiceJob' },
);
export type Job = Static<typeof Job>;

/** One item of a job: a prospect or an e-mail address, with its outcome. */
export const JobItem = Type.Object(
  {
    item: Type.String({ description: 'the id of a prospect, or an e-mail address' }),
    contact_id: Nullable(Uuid()),
    status: Enum(itemStatuses),
    reason: Nullable(Enum([...skipReasons, ...failReasons])),
    charged: Type.Integer(),
    result: Type.Union([Prospect, Verification, Type.Null()], {
      description: 'the unlocked prospect, or the verification',
    }),
    finished_at: Instant(),
  },
  { title: 'ServiceJobItem' },
);
export type JobItem = Static<typeof JobItem>;

/** Response after a job was started: its id and status. */
export const JobStarted = Type.Object({ id: Uuid(), status: Enum(jobStatuses) }, { title: 'ServiceHandler' });
export type JobStarted = Static<typeof JobStarted>;

const sync = (description: string) => Type.Optional(Type.Boolean({ default: false, description }));

const dryRun = Type.Optional(Type.Boolean({ default: false, description: 'only return an estimate; unlock nothing' }));

const syncProspects = sync('create or update contacts and companies from the unlocked prospects');

const { filters, order_by } = ProspectQuery.properties;

/** Request body for unlocking prospects by filter: which prospects, in which order, and how many. */
export const UnlockContacts = Strict(
  {
    filters,
    order_by,
    total_records: Type.Integer({ minimum: 1, maximum: 10_000 }),
    sync_crm: syncProspects,
    dry_run: dryRun,
  },
  {
    title: 'UnlockContacts',
    examples: [
      {
        filters: { job_title: ['sales manager'], location_country: ['Germany'] },
        order_by: { score: 'DESC' },
        total_records: 100,
        sync_crm: true,
      },
    ],
  },
);
export type UnlockContacts = Static<typeof UnlockContacts>;

/** Request body for unlocking prospects by id. */
export const UnlockSelectedContacts = Strict(
  {
    ids: Type.Array(Uuid(), {
      minItems: 1,
      maxItems: 1000,
      description: 'ids of prospects; an unknown id fails its own item only',
    }),
    sync_crm: syncProspects,
    dry_run: dryRun,
  },
  {
    title: 'UnlockSelectedContacts',
    examples: [{ ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'], sync_crm: true }],
  },
);
export type UnlockSelectedContacts = Static<typeof UnlockSelectedContacts>;

const EmailToVerify = Strict(
  {
    email: Type.String({
      minLength: 1,
      maxLength: 254,
      description: 'any text; text that is not an e-mail address gets the status `invalid`',
    }),
    contact_id: Type.Optional(Uuid({ description: 'the contact that the address belongs to' })),
  },
  { title: 'EmailToVerify' },
);

/** Request body for verifying e-mail addresses. */
export const VerifyEmail = Strict(
  {
    emails: Type.Array(EmailToVerify, { minItems: 1, maxItems: 1000 }),
    sync_crm: sync('write the status to the contacts with this `work_email`'),
  },
  { title: 'VerifyEmail', examples: [{ emails: [{ email: 'ada@example.com' }], sync_crm: false }] },
);
export type VerifyEmail = Static<typeof VerifyEmail>;

/** Response of a dry run of an unlock: how many prospects match, and how many credits it would cost to unlock them. */
export const Estimate = Type.Object(
  {
    matches: Type.Integer({
      description: 'matching prospects that are not unlocked yet; for given ids, those that exist',
    }),
    cost: Type.Integer({ description: 'credits that the start would reserve' }),
    available: Type.Integer({ description: 'credits that can be spent' }),
  },
  { title: 'UnlockEstimate' },
);
export type Estimate = Static<typeof Estimate>;

/** Response after the verification of a list was started, with the id of the job. */
export const ListVerification = Type.Object(
  { success: Type.Literal(true), message: Type.String(), data: JobStarted },
  { title: 'ContactListVerification' },
);

/** Request body of the job list: filters and page. */
export const JobQuery = Strict(
  {
    filters: Type.Optional(Strict({ status: Type.Optional(Enum(jobStatuses)), type: Type.Optional(Enum(jobTypes)) })),
    paginate: Type.Optional(Paginate),
  },
  { title: 'ServiceJobQuery', examples: [{ filters: { status: 'PROCESSING' } }] },
);
export type JobQuery = Static<typeof JobQuery>;

/** Request body for listing the items of one job: only the page. */
export const JobItemQuery = Strict(
  { paginate: Type.Optional(PaginateOrContinue) },
  { title: 'ServiceJobItemQuery', examples: [{ paginate: { limit: 100 } }] },
);
