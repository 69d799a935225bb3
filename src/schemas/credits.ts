import { Type, type Static } from '@sinclair/typebox';
import { PaginateOrContinue } from './filters.ts';
import { Enum, Instant, Nullable, Strict, Uuid } from './wire.ts';

/** What credits are spent on: prospects out of the subscription, verifications out of their own pool. */
export const pools = ['subscription', 'verification'] as const;
export type Pool = (typeof pools)[number];

/** What happened to credits. A start reserves; what is delivered is charged; what is left at the end is released. */
export const entryKinds = ['grant', 'reserve', 'charge', 'release', 'adjust'] as const;
export type EntryKind = (typeof entryKinds)[number];

const Balance = Type.Object({
  balance: Type.Integer({ description: 'credits that can be spent' }),
  reserved: Type.Integer({ description: 'credits that unfinished jobs may still spend' }),
});

/** What a customer has. */
export const Credits = Type.Object({ subscription: Balance, verification: Balance }, { title: 'Credits' });
export type Credits = Static<typeof Credits>;

/** An entry of the ledger. */
export const LedgerEntry = Type.Object(
  {
    id: Uuid(),
    pool: Enum(pools),
    kind: Enum(entryKinds),
    amount: Type.Integer({ description: 'more than 0; only of `adjust` it has a sign' }),
    balance_after: Type.Integer(),
    reserved_after: Type.Integer(),
    job_id: Nullable(Uuid()),
    note: Nullable(Type.String()),
    created_at: Instant(),
  },
  { title: 'LedgerEntry' },
);
export type LedgerEntry = Static<typeof LedgerEntry>;

/** Which page of the ledger. */
export const LedgerQuery = Strict(
  { paginate: Type.Optional(PaginateOrContinue) },
  { title: 'LedgerQuery', examples: [{ paginate: { limit: 100 } }] },
);
