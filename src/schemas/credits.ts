import { Type, type Static } from '@sinclair/typebox';
import { Enum, Instant, Nullable, PaginateOrContinue, Strict, Uuid } from './base/wire.ts';

/** `subscription` pays for unlocking prospects, `verification` for verifying e-mail addresses. */
export const pools = ['subscription', 'verification'] as const;
export type Pool = (typeof pools)[number];

/** A job reserves credits at its start, is charged for its results, and releases the rest at its end. */
const entryKinds = ['grant', 'reserve', 'charge', 'release', 'adjust'] as const;
export type EntryKind = (typeof entryKinds)[number];

const Balance = (description: string) =>
  Type.Object(
    {
      balance: Type.Integer({ description: 'Credits that can be spent.' }),
      reserved: Type.Integer({ description: 'Credits reserved for unfinished jobs. They cannot be spent.' }),
    },
    { description },
  );

export const Credits = Type.Object(
  {
    subscription: Balance('Credits that pay for unlocking prospects.'),
    verification: Balance('Credits that pay for verifying e-mail addresses.'),
  },
  { title: 'Credits' },
);
export type Credits = Static<typeof Credits>;

export const LedgerEntry = Type.Object(
  {
    id: Uuid('Id of the entry.'),
    pool: Enum(pools, 'Which credits: `subscription` pays for unlocking, `verification` for verifying.'),
    kind: Enum(
      entryKinds,
      '`grant`: credits were added; `reserve`: a job started; `charge`: a job delivered results; `release`: a job ended, ' +
        'and what it did not spend came back; `adjust`: a correction.',
    ),
    amount: Type.Integer({
      description: 'Number of credits. Greater than 0, except for `adjust`, which may be negative.',
    }),
    balance_after: Type.Integer({ description: 'Credits that could be spent after this entry.' }),
    reserved_after: Type.Integer({ description: 'Credits reserved for jobs after this entry.' }),
    job_id: Nullable(Uuid('The job that caused the entry. Null: no job did.')),
    note: Nullable(Type.String({ description: 'A remark for people.' })),
    created_at: Instant('When the entry was written.'),
  },
  { title: 'LedgerEntry' },
);
export type LedgerEntry = Static<typeof LedgerEntry>;

export const LedgerQuery = Strict(
  { paginate: Type.Optional(PaginateOrContinue) },
  { title: 'LedgerQuery', examples: [{ paginate: { limit: 100 } }] },
);
