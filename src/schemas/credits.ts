import { Type, type Static } from '@sinclair/typebox';
import { PaginateOrContinue } from './filters.ts';
import { Enum, Instant, Nullable, Strict, Uuid } from './base/wire.ts';

/**
 * The two pools of credits. Credits in `subscription` pay for unlocking prospects, credits in `verification` for
 * verifying e-mail addresses.
 */
export const pools = ['subscription', 'verification'] as const;
export type Pool = (typeof pools)[number];

/**
 * Kinds of entries in the credit ledger. A job reserves credits at its start, is charged for its results, and releases
 * the unspent credits at its end.
 */
export const entryKinds = ['grant', 'reserve', 'charge', 'release', 'adjust'] as const;
export type EntryKind = (typeof entryKinds)[number];

const Balance = (description: string) =>
  Type.Object(
    {
      balance: Type.Integer({ description: 'Credits that can be spent.' }),
      reserved: Type.Integer({ description: 'Credits reserved for unfinished jobs. They cannot be spent.' }),
    },
    { description },
  );

/** The number of credits that a customer has in each of the two pools. */
export const Credits = Type.Object(
  {
    subscription: Balance('Credits that pay for unlocking prospects.'),
    verification: Balance('Credits that pay for verifying e-mail addresses.'),
  },
  { title: 'Credits' },
);
export type Credits = Static<typeof Credits>;

/** An entry of the credit ledger. The ledger records every change of a customer's credits. */
export const LedgerEntry = Type.Object(
  {
    id: Uuid({ description: 'Id of the entry.' }),
    pool: Enum(pools, {
      description: 'Which credits: `subscription` pays for unlocking, `verification` for verifying.',
    }),
    kind: Enum(entryKinds, {
      description:
        '`grant`: credits were added; `reserve`: a job started; `charge`: a job delivered results; `release`: a job ended, ' +
        'and what it did not spend came back; `adjust`: a correction.',
    }),
    amount: Type.Integer({
      description: 'Number of credits. Greater than 0, except for `adjust`, which may be negative.',
    }),
    balance_after: Type.Integer({ description: 'Credits that could be spent after this entry.' }),
    reserved_after: Type.Integer({ description: 'Credits reserved for jobs after this entry.' }),
    job_id: Nullable(Uuid({ description: 'The job that caused the entry. Null: no job did.' })),
    note: Nullable(Type.String({ description: 'A remark for people.' })),
    created_at: Instant({ description: 'When the entry was written.' }),
  },
  { title: 'LedgerEntry' },
);
export type LedgerEntry = Static<typeof LedgerEntry>;

/** Request body for listing the entries of the credit ledger: paging parameters only. */
export const LedgerQuery = Strict(
  { paginate: Type.Optional(PaginateOrContinue) },
  { title: 'LedgerQuery', examples: [{ paginate: { limit: 100 } }] },
);
