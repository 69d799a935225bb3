import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { KeyedDigests } from '../../text/keyed-digests.ts';
import { findPersonIdSecret } from './catalog-imports.ts';
import { formsOf, identifiersOf, type Identified, type Identifier, type IdentifierKind } from './identifiers.ts';

/** Keeps people with one identifier out of the catalog. */
export interface Suppression {
  kind: IdentifierKind;
  /** Of the identifier: a `KeyedDigests` digest under the installation's secret. */
  digest: Buffer;
  /** People with the identifier are deleted. False: they are only kept out. */
  is_erasure: boolean;
  reason: string;
  case_ref: string | null;
  received_at: string;
}

export type SuppressionKey = Pick<Suppression, 'kind' | 'digest'>;

/** By the installation's secret. */
export const openDigests = async (sql: Queryable): Promise<KeyedDigests> =>
  new KeyedDigests(await findPersonIdSecret(sql));

/** Converts a digest to the form of the database. */
export const toBytes = (digest: string): Buffer => Buffer.from(digest, 'latin1');

/** Returns the keys under which an identifier can be suppressed: first the one of today. */
export const keysOf = (digests: KeyedDigests, identifier: Identifier): SuppressionKey[] =>
  formsOf(identifier).map((form) => ({ kind: identifier.kind, digest: toBytes(digests.of(form)) }));

const lockName = 'suppressions';

/**
 * Locks the table of suppressions until the transaction ends, to change it. Waits for running transactions that unlock
 * people: all later ones see the change.
 */
export async function lockSuppressions(sql: Transaction): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${lockName}, 0))`;
}

/**
 * Returns the ids of those who are suppressed. Nobody else is suppressed until the transaction ends. Call it before
 * people are unlocked.
 */
export async function lockAndFindSuppressed(sql: Transaction, people: readonly Identified[]): Promise<Set<string>> {
  // Sent together. The second statement's snapshot is taken after the first has the lock.
  const [, [found]] = await Promise.all([
    sql`select pg_advisory_xact_lock_shared(hashtextextended(${lockName}, 0))`,
    sql<[{ is_used: boolean }]>`select exists (select 1 from suppressions) as is_used`,
  ]);
  return found.is_used ? findSuppressed(sql, people) : new Set();
}

async function findSuppressed(sql: Transaction, people: readonly Identified[]): Promise<Set<string>> {
  const digests = await openDigests(sql);
  const keys = people.flatMap((person) =>
    identifiersOf(person).flatMap((own) => keysOf(digests, own).map((key) => ({ ...key, id: person._id }))),
  );
  const rows = await sql<{ id: string }[]>`
    select distinct given.id
    from unnest(
      ${keys.map(({ id }) => id)}::uuid[],
      ${keys.map(({ kind }) => kind)}::text[],
      ${digestsOf(keys)}::text[]
    ) as given (id, kind, digest)
    join suppressions s on s.kind = given.kind and s.digest = decode(given.digest, 'hex')`;
  return new Set(rows.map(({ id }) => id));
}

/** Yields all keys, in batches. */
export async function* readSuppressions(sql: Sql): AsyncGenerator<Pick<Suppression, 'kind' | 'digest' | 'is_erasure'>> {
  const batches = sql<Pick<Suppression, 'kind' | 'digest' | 'is_erasure'>[]>`
    select kind, digest, is_erasure
    from suppressions`.cursor(5_000);
  for await (const batch of batches) yield* batch;
}

/** The latest first. */
export const listSuppressions = (sql: Queryable): Promise<Suppression[]> => sql<Suppression[]>`
  select kind, digest, is_erasure, reason, case_ref, received_at
  from suppressions
  order by received_at desc, kind, digest`;

/** Returns those that exist. */
export const findSuppressions = (sql: Queryable, keys: readonly SuppressionKey[]): Promise<Suppression[]> => sql<
  Suppression[]
>`
  select kind, digest, is_erasure, reason, case_ref, received_at
  from suppressions
  where ${among(sql, keys)}
  order by received_at, kind, digest`;

/** Returns when the suppression of each person's id was received, by id. */
export async function findErasures(sql: Queryable, prospectIds: readonly string[]): Promise<Map<string, string>> {
  const digests = await openDigests(sql);
  const ids = new Map(prospectIds.map((id) => [digests.of(id), id]));
  const keys = Array.from(ids.keys(), (digest) => ({ kind: 'id' as const, digest: toBytes(digest) }));
  const found = await findSuppressions(sql, keys);
  return new Map(found.map(({ digest, received_at }) => [ids.get(digest.toString('latin1'))!, received_at]));
}

export const findSuppressionsOfCase = (sql: Queryable, caseRef: string): Promise<SuppressionKey[]> => sql<
  SuppressionKey[]
>`
  select kind, digest
  from suppressions
  where case_ref = ${caseRef}`;

/**
 * Adds suppressions, each once. One that exists stays, but may become an erasure. The caller must have called `lockSuppressions`.
 * @returns how many are new
 */
export async function insertSuppressions(
  sql: Transaction,
  suppressions: readonly (Omit<Suppression, 'received_at'> & { received_at?: string })[],
): Promise<number> {
  const given = suppressions.map(({ digest, ...row }) => ({ ...row, digest: digest.toString('hex') }));
  const rows = await sql<{ is_new: boolean }[]>`
    insert into suppressions as s (kind, digest, is_erasure, reason, case_ref, received_at)
    select distinct on (kind, digest)
      kind, decode(digest, 'hex'), is_erasure, reason, case_ref, coalesce(received_at, now())
    from jsonb_to_recordset(${sql.json(given)}) as given (
      kind text, digest text, is_erasure boolean, reason text, case_ref text, received_at timestamptz
    )
    order by kind, digest, is_erasure desc
    on conflict (kind, digest) do update set is_erasure = s.is_erasure or excluded.is_erasure
    returning (xmax = 0) as is_new`;
  return rows.filter(({ is_new }) => is_new).length;
}

/** The caller must have called `lockSuppressions`. Returns how many were deleted. */
export async function deleteSuppressions(sql: Transaction, keys: readonly SuppressionKey[]): Promise<number> {
  const { count } = await sql`
    delete from suppressions
    where ${among(sql, keys)}`;
  return count;
}

const kinds = (keys: readonly SuppressionKey[]): string[] => keys.map(({ kind }) => kind);
/** In hexadecimal digits: the driver sends no arrays of bytes. */
const digestsOf = (keys: readonly SuppressionKey[]): string[] => keys.map(({ digest }) => digest.toString('hex'));

/** Condition for the rows with these keys. */
const among = (sql: Queryable, keys: readonly SuppressionKey[]) => sql`
  (kind, digest) in (
    select kind, decode(digest, 'hex')
    from unnest(${kinds(keys)}::text[], ${digestsOf(keys)}::text[]) as given (kind, digest)
  )`;
