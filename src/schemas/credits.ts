import { Type, type Static } from '@sinclair/typebox';
import { PaginateOrContinue } from './filters.ts';
import { Enum, Instant, Nullable, Strict, Uuid } from './wire.ts';

/** Pools of credits: `subscription` pays for prospects, `verification` for verifications. */
export const pools = ['subscription', 'verification'] as const;
export type Pool = (typeof pools)[number];

/**
 * Kinds of ledger entries. The start of a job reserves credits, delivered results are charged, and the end of the job
 * releases the remaining reserved credits.
 */
export const entryKinds = ['grant', 'reserve', 'charge', 'release', 'adjust'] as const;
export type EntryKind = (typeof entryKinds)[number];

const Balance = Type.Object({
  balance: Type.Integer({ description: 'credits that can be spent' }),
  reserved: Type.Integer({ description: 'credits reserved for unfinished jobs' }),
});

/** A customer's credits in both pools. */
export const Credits = Type.Object({ subscription: Balance, verification: Balance }, { title: 'Credits' });
export type Credits = Static<typeof Credits>;

/** An entry of the ledger, which records every change of a customer's credits. */
export const LedgerEntry = Type.Object(
  {
    id: Uuid(),
    pool: Enum(pools),
    kind: Enum(entryKinds),
    amount: Type.Integer({ description: 'greater than 0, except for `adjust`, which may be negative' }),
    balance_after: Type.Integer(),
    reserved_after: Type.Integer(),
    job_id: Nullable(Uuid()),
    note: Nullable(Type.String()),
    created_at: Instant(),
  },
  { title: 'LedgerEntry' },
);
export type LedgerEntry = Static<typeof LedgerEntry>;

/** Request body of the ledger list: the page. */
export const LedgerQuery = Strict(
  { paginate: Type.Optional(PaginateOrContinue) },
  { title: 'LedgerQuery', examples: [{ paginate: { limit: 100 } }] },
);
