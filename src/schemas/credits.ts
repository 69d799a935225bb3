import { Type, type Static } from '@sinclair/typebox';
import { PaginateOrContinue } from './filters.ts';
import { Enum, Instant, Nullable, Strict, Uuid } from './wire.ts';

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

const Balance = Type.Object({
  balance: Type.Integer({ description: 'credits that can be spent' }),
  reserved: Type.Integer({ description: 'credits reserved for unfinished jobs' }),
});

/** How many credits a customer has in each of the two pools. */
export const Credits = Type.Object({ subscription: Balance, verification: Balance }, { title: 'Credits' });
export type Credits = Static<typeof Credits>;

/** An entry of the credit ledger. The ledger records every change of a customer's credits. */
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

/** Request body for listing the entries of the credit ledger: only the page. */
export const LedgerQuery = Strict(
  { paginate: Type.Optional(PaginateOrContinue) },
  { title: 'LedgerQuery', examples: [{ paginate: { limit: 100 } }] },
);
