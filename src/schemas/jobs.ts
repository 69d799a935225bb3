import { Type, type Static, type TObject } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { EnrichContacts, EnrichEstimate, EnrichmentResult } from './clean-data.ts';
import { Prospect, ProspectFilters, ProspectQuery } from './prospects.ts';
import { mayCall, scopes as allScopes, scopesOf, undoScopes, type Access, type Scope } from './scopes.ts';
import { Verification } from './verification.ts';

/** Kinds of credits. `subscription` pays for unlocking prospects, `verification` for verifying e-mail addresses. */
export const pools = ['subscription', 'verification'] as const;
export type Pool = (typeof pools)[number];

/**
 * Kinds of entries in the ledger of credits. A job reserves credits at its start, is charged for its results, and
 * releases the rest at its end.
 */
const entryKinds = ['grant', 'reserve', 'charge', 'release', 'adjust'] as const;
export type EntryKind = (typeof entryKinds)[number];

const Balance = (description: string) =>
  wire.Described(description, {
    balance: Type.Integer({ description: 'Credits that can be spent.' }),
    reserved: Type.Integer({ description: 'Credits reserved for unfinished jobs. They cannot be spent.' }),
  });

export const Credits = wire.Named('Credits', {
  subscription: Balance('Credits that pay for unlocking prospects.'),
  verification: Balance('Credits that pay for verifying e-mail addresses.'),
});
export type Credits = Static<typeof Credits>;

export const LedgerEntry = wire.Named('LedgerEntry', {
  id: wire.Uuid('Id of the entry.'),
  pool: wire.Enum(pools, 'Which credits: `subscription` pays for unlocking, `verification` for verifying.'),
  kind: wire.Enum(
    entryKinds,
    '`grant`: credits were added; `reserve`: a job started; `charge`: a job delivered results; `release`: a job ended, ' +
      'and what it did not spend came back; `adjust`: a correction.',
  ),
  amount: Type.Integer({
    description: 'Number of credits. Greater than 0, except for `adjust`, which may be negative.',
  }),
  balance_after: Type.Integer({ description: 'Credits that could be spent after this entry.' }),
  reserved_after: Type.Integer({ description: 'Credits reserved for jobs after this entry.' }),
  job_id: wire.Nullable(wire.Uuid('The job that caused the entry. Null: no job did.')),
  note: wire.Nullable(Type.String({ description: 'A remark for people.' })),
  created_at: wire.Instant('When the entry was written.'),
});
export type LedgerEntry = Static<typeof LedgerEntry>;

export const LedgerQuery = wire.PageQuery('LedgerQuery', 100);

const dryRun = wire.Flag('Only return an estimate; unlock nothing.');

const syncProspects = wire.Flag('Create or update contacts and companies from the unlocked prospects.');

const listIds = Type.Optional(
  wire.Ids(
    'Lists to which the contacts of these prospects are added by hand. With a list, the prospects become contacts, whatever ' +
      '`sync_crm` says.',
  ),
);

const maxCredits = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    description: 'A start that would reserve more credits than this is 402, and nothing starts.',
  }),
);

export const UnlockContacts = wire.Body(
  'UnlockContacts',
  [
    {
      filters: { job_title: ['sales manager'], location_country: ['Germany'] },
      order_by: { score: 'DESC' },
      total_records: 100,
      sync_crm: true,
    },
  ],
  {
    // Required, because a forgotten filter must not spend.
    filters: { ...ProspectFilters, description: `${ProspectFilters.description} \`{}\` is everybody.` },
    order_by: ProspectQuery.properties.order_by,
    total_records: Type.Integer({ minimum: 1, maximum: 10_000, description: 'How many prospects to unlock at most.' }),
    sync_crm: syncProspects,
    list_ids: listIds,
    max_credits: maxCredits,
    dry_run: dryRun,
  },
);
export type UnlockContacts = Static<typeof UnlockContacts>;

export const UnlockSelectedContacts = wire.Body(
  'UnlockSelectedContacts',
  [{ ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'], sync_crm: true }],
  {
    ids: Type.Array(wire.Uuid(), {
      minItems: 1,
      maxItems: 1000,
      description: 'Ids of prospects. An unknown id makes only its own item fail.',
    }),
    sync_crm: syncProspects,
    list_ids: listIds,
    max_credits: maxCredits,
    dry_run: dryRun,
  },
);
export type UnlockSelectedContacts = Static<typeof UnlockSelectedContacts>;

const EmailToVerify = wire.Strict(
  {
    email: Type.String({
      minLength: 1,
      maxLength: 254,
      description: 'Any text. Text that is not an e-mail address gets the status `invalid`, and is charged.',
    }),
    contact_id: Type.Optional(wire.Uuid('An existing contact that the address belongs to.')),
  },
  { title: 'EmailToVerify' },
);

const verifying = {
  fresh: wire.Flag('Verify every address anew, and charge for it. Otherwise results of the last 24 hours are reused.'),
  max_credits: maxCredits,
  dry_run: wire.Flag('Only return an estimate; verify nothing.'),
};

export const VerifyList = wire.Strict(verifying, { title: 'VerifyList', examples: [{ fresh: false, dry_run: true }] });
export type VerifyList = Static<typeof VerifyList>;

export const VerifyEmail = wire.Body('VerifyEmail', [{ emails: [{ email: 'ada@example.com' }], sync_crm: false }], {
  emails: Type.Array(EmailToVerify, {
    minItems: 1,
    maxItems: 1000,
    description: 'The addresses. One that is given twice is verified and charged once.',
  }),
  sync_crm: wire.Flag('Write the status to the contacts with this `work_email`.'),
  ...verifying,
});
export type VerifyEmail = Static<typeof VerifyEmail>;

export const Estimate = wire.Named('UnlockEstimate', {
  matches: Type.Integer({
    description: 'Matching prospects that are not unlocked yet. For given ids: those that exist.',
  }),
  cost: Type.Integer({ description: 'Credits that the start would reserve.' }),
  available: Type.Integer({ description: 'Credits that can be spent.' }),
});
export type Estimate = Static<typeof Estimate>;

export const VerificationEstimate = wire.Named('VerificationEstimate', {
  matches: Type.Integer({ description: 'Distinct addresses.' }),
  cost: Type.Integer({
    description: 'Credits that the start would reserve: none for addresses whose result would be reused.',
  }),
  available: Type.Integer({ description: 'Credits that can be spent.' }),
});

interface JobEntry {
  queue: 'unlock' | 'verify';
  /** Credits that pay for the job. Null: it is free. */
  pool: Pool | null;
  /** API keys that may start, read and cancel the job. */
  access: Access;
  /** Words of the pages: what the job does, what an item is, and what was done with it. */
  words: readonly [title: string, item: string, items: string, done: string];
  /**
   * Call that starts the job: `POST /service-handler/` and the type with hyphens. Missing: a route of its own starts the
   * job.
   */
  call?: {
    operationId: string;
    summary: string;
    description: string;
    body: TObject;
    /** Response to a dry run. Missing: the call has no dry run. */
    estimate?: TObject;
  };
}

const unlocking = {
  queue: 'unlock',
  pool: 'subscription',
  access: { scope: 'payment_prospect:create' },
} as const;

const table = {
  unlock_contacts: {
    ...unlocking,
    words: ['Unlock prospects by filter', 'prospect', 'prospects', 'unlocked'],
    call: {
      operationId: 'unlockProspects',
      summary: 'Unlock the prospects that match a filter',
      description:
        'Starts a job that unlocks the first `total_records` matching prospects that are not unlocked yet, in the ' +
        'order of `order_by`. It reserves the credits that this can cost at most; too few are 402, and nothing ' +
        'starts. With `dry_run` the response is an estimate, and nothing happens. With `sync_crm` or `list_ids` the ' +
        'unlocked prospects become contacts.',
      body: UnlockContacts,
      estimate: Estimate,
    },
  },
  unlock_selected_contacts: {
    ...unlocking,
    words: ['Unlock chosen prospects', 'prospect', 'prospects', 'unlocked'],
    call: {
      operationId: 'unlockSelectedProspects',
      summary: 'Unlock prospects by id',
      description:
        'Starts a job that unlocks the named prospects. It reserves the credits that this can cost at most; too ' +
        'few are 402, and nothing starts. Prospects that are unlocked already cost nothing; unknown ids are ' +
        'failed items. With `dry_run` the response is an estimate, and nothing happens.',
      body: UnlockSelectedContacts,
      estimate: Estimate,
    },
  },
  verify_email: {
    queue: 'verify',
    pool: 'verification',
    access: { scope: 'verify_email:create' },
    words: ['Verify e-mail addresses', 'address', 'addresses', 'checked'],
    call: {
      operationId: 'verifyEmails',
      summary: 'Verify e-mail addresses',
      description:
        'Starts a job that verifies e-mail addresses. It reserves one verification credit for each distinct ' +
        'address; too few are 402, and nothing starts. An address whose verification ends `unknown` costs ' +
        'nothing. So does one that was verified for this customer in the last 24 hours: its result is reused, ' +
        'unless `fresh` is true. With `dry_run` the response is an estimate, and nothing happens.',
      body: VerifyEmail,
      estimate: VerificationEstimate,
    },
  },
  verify_list: {
    queue: 'verify',
    pool: 'verification',
    access: { anyScope: ['list_contacts:read', 'verify_email:create'] },
    words: ['Verify a list', 'address', 'addresses', 'checked'],
  },
  enrich_contacts: {
    ...unlocking,
    access: { allScopes: ['payment_prospect:create', 'contacts:update'] },
    words: ['Enrich contacts', 'contact', 'contacts', 'filled in'],
    call: {
      operationId: 'enrichContacts',
      summary: 'Enrich contacts from the catalog',
      description:
        'Starts a job that finds each contact in the catalog (by its e-mail addresses, else as `/prospect/match`), unlocks ' +
        'the person and fills the empty fields of the contact. A person who is unlocked already costs nothing; where a new ' +
        'person would fill nothing, nobody is unlocked. It reserves at most `max_credits`; too few are 402, and nothing ' +
        'starts. With `dry_run` the response is an estimate, and nothing happens.',
      body: EnrichContacts,
      estimate: EnrichEstimate,
    },
  },
  undo: {
    queue: 'unlock',
    pool: null,
    access: { anyScope: undoScopes },
    words: ['Undo a change', 'record', 'records', 'taken back'],
  },
} satisfies Record<string, JobEntry>;

export type JobType = keyof typeof table;
export type PaidJobType = { [T in JobType]: (typeof table)[T]['pool'] extends null ? never : T }[JobType];
export type JobQueue = JobEntry['queue'];

/** All types of jobs, with everything about them but their code, which is in `src/jobs/job-types.ts`. */
export const jobTable: Readonly<Record<JobType, JobEntry>> = table;
export const jobTypes = Object.keys(table) as JobType[];
export const paidJobTypes = jobTypes.filter((type): type is PaidJobType => jobTable[type].pool !== null);

/** Returns the pool that pays for a job. A free job stores a pool, too, but reserves nothing from it. */
export const poolOf = (type: JobType): Pool => jobTable[type].pool ?? 'subscription';

export const jobScopes = allScopes.filter((scope) =>
  jobTypes.some((type) => scopesOf(jobTable[type].access).includes(scope)),
);

/** Jobs that a caller may read and cancel: those of these types whose request needs no scope other than `scopes`. */
export interface VisibleJobs {
  types: readonly JobType[];
  scopes: readonly Scope[];
}

export const visibleJobs = (scopes: readonly Scope[]): VisibleJobs => ({
  scopes,
  types: jobTypes.filter((type) => mayCall(scopes, jobTable[type].access)),
});

export const allJobs: VisibleJobs = { types: jobTypes, scopes: allScopes };

/**
 * Statuses of a job: `PENDING → PROCESSING → COMPLETED | FAILED | CANCELLED`. A completed job may have failed items.
 */
export const jobStatuses = ['PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type JobStatus = (typeof jobStatuses)[number];

const jobWaits = ['name_server'] as const;

export const finalStatuses = ['COMPLETED', 'FAILED', 'CANCELLED'] as const satisfies readonly JobStatus[];
export type FinalStatus = (typeof finalStatuses)[number];

export const itemStatuses = ['succeeded', 'failed', 'skipped'] as const;
export type ItemStatus = (typeof itemStatuses)[number];

const skipReasons = [
  'already_unlocked',
  'duplicate',
  'cancelled',
  'no_match',
  'ambiguous',
  'nothing_new',
  'max_credits',
  'changed_since',
  'taken',
  'in_use',
  'gone',
] as const;
const failReasons = ['not_found'] as const;
export type ItemReason = (typeof skipReasons)[number] | (typeof failReasons)[number];

const JobStatus = wire.Enum(
  jobStatuses,
  'PENDING → PROCESSING → COMPLETED, FAILED or CANCELLED. The last three are final. A job is COMPLETED even if some of its ' +
    'items failed.',
);

export const Job = wire.Named('ServiceJob', {
  id: wire.Uuid('Id of the job.'),
  type: wire.Enum(jobTypes, 'Which call started the job.'),
  status: JobStatus,
  sync_crm: Type.Boolean({ description: 'Whether results are written to contacts.' }),
  total: Type.Integer({ description: 'Number of items, as known when the job began.' }),
  processed: Type.Integer({ description: 'Items that have a result: succeeded + failed + skipped.' }),
  succeeded: Type.Integer({ description: 'Items that were delivered.' }),
  failed: Type.Integer({ description: 'Items that could not be delivered, such as unknown ids. They cost nothing.' }),
  skipped: Type.Integer({ description: 'Items that there was no need to deliver. They cost nothing.' }),
  credits: wire.Described('What the job costs.', {
    pool: wire.Nullable(wire.Enum(pools, 'The pool of credits that pays. Null: the job costs nothing.')),
    reserved: Type.Integer({ description: 'Credits reserved at the start: the most that the job can cost.' }),
    charged: Type.Integer({ description: 'Credits spent for items until now.' }),
    refunded: Type.Integer({ description: 'Credits released at the end. Then reserved = charged + refunded.' }),
  }),
  error: wire.Nullable(Type.String({ description: 'Why the job FAILED. Null for every other status.' })),
  waiting_for: wire.Nullable(
    wire.Enum(
      jobWaits,
      '`name_server`: the name server of the service knows no domain at present, so a verification waits until it does, ' +
        'at most an hour. Nothing is charged for it. Null: the job waits for nothing but its turn.',
    ),
  ),
  created_at: wire.Instant('When the job was started by the call.'),
  started_at: wire.Nullable(wire.Instant('When a worker began. Null: none did yet.')),
  finished_at: wire.Nullable(wire.Instant('When the job ended. Null: it has not.')),
});
export type Job = Static<typeof Job>;

export const UndoResult = wire.Named('Undone', {
  restored: Type.Array(Type.String(), { description: 'The fields of an updated record that were restored.' }),
  kept: Type.Array(
    Type.Object({
      field: Type.String({ description: 'Name of the field.' }),
      actor: wire.Nullable(wire.Actor()),
      occurred_at: wire.Nullable(wire.Instant('When it was written since. Null: it is not known.')),
    }),
    { description: 'The fields that were not, and who has written them since.' },
  ),
});
export type UndoResult = Static<typeof UndoResult>;

export const JobItem = wire.Named('ServiceJobItem', {
  item: Type.String({ description: 'The id of a prospect or of a record, or an e-mail address.' }),
  contact_id: wire.Nullable(wire.Uuid('The contact that the item belongs to or became. Null: none.')),
  status: wire.Enum(
    itemStatuses,
    '`succeeded`: delivered; `failed`: could not be delivered; `skipped`: not needed, or the job was cancelled.',
  ),
  reason: wire.Nullable(
    wire.Enum(
      [...skipReasons, ...failReasons],
      'Why the item failed or was skipped, or a part of it was not restored. Null: it succeeded.',
    ),
  ),
  charged: Type.Integer({ description: 'Credits that the item cost.' }),
  reused: Type.Boolean({
    description: 'Whether the result is an earlier verification of the address, which is free.',
  }),
  result: Type.Union([Prospect, Verification, EnrichmentResult, UndoResult, Type.Null()], {
    title: 'ServiceJobResult',
    description:
      'Of a succeeded item: the unlocked prospect, the verification of the address, or what was filled in the contact. ' +
      'Otherwise null, except that `nothing_new` names the prospect. Of an undo: the fields that were restored and kept.',
  }),
  finished_at: wire.Instant('When the item got its result.'),
});
export type JobItem = Static<typeof JobItem>;

export const JobStarted = Type.Object(
  { id: wire.Uuid('Id of the job, to follow it.'), status: JobStatus },
  { title: 'ServiceHandler', description: 'The job that was started.' },
);
export type JobStarted = Static<typeof JobStarted>;

export const ListVerification = Type.Object(
  { ...wire.success, data: JobStarted },
  { title: 'ContactListVerification' },
);

export const JobQuery = wire.Body('ServiceJobQuery', [{ filters: { status: 'PROCESSING' } }], {
  filters: Type.Optional(
    wire.Strict(
      {
        status: Type.Optional(wire.Enum(jobStatuses, 'Only jobs with this status.')),
        type: Type.Optional(wire.Enum(jobTypes, 'Only jobs of this type.')),
      },
      { description: 'Which jobs. A job must match both.' },
    ),
  ),
  paginate: Type.Optional(wire.PaginateOrContinue),
});
export type JobQuery = Static<typeof JobQuery>;

export const JobItemQuery = wire.PageQuery('ServiceJobItemQuery', 100);
