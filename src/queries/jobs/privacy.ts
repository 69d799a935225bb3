import type { Database, Queryable, Transaction, Sql } from '../../database/db.ts';
import { spellingsOf, valuesOf, findPersonIdSecret, formsOf, identifiersOf } from './catalog-imports.ts';
import type { IdentifierKind, Identifier, Identified } from './catalog-imports.ts';
import { profileKey } from '../../text/domains.ts';
import { KeyedDigests } from '../../text/ids.ts';
import type { Column } from '../../filters/columns.ts';
import type { Removal, RemovalQuery } from '../../schemas/prospects.ts';
import { type RecordPage, limitAndOffset, readPage } from '../records/finders.ts';

export interface PrivacyAction {
  action: 'find' | 'export' | 'erase' | 'suppress' | 'lift' | 'list' | 'apply';
  operator: string;
  key?: { kind: IdentifierKind; digest: Buffer } | undefined;
  case_ref?: string | undefined;
  reason?: string | undefined;
}

/** Details of a privacy action. They are only numbers, because the log must not identify a person. */
type PrivacyDetails = Record<string, number>;

export type LoggedAction = Pick<PrivacyAction, 'action' | 'operator'> & {
  case_ref: string | null;
  reason: string | null;
  details: PrivacyDetails;
  created_at: string;
};

export const notePrivacyAction = (
  db: Database,
  { action, operator, key, case_ref, reason }: PrivacyAction,
  work: (sql: Transaction) => Promise<PrivacyDetails>,
): Promise<PrivacyDetails> =>
  db.transaction(async (sql) => {
    const details = await work(sql);
    await sql`
      insert into privacy_log (action, operator, kind, digest, case_ref, reason, details)
      values (
        ${action}, ${operator}, ${key?.kind ?? null}, ${key?.digest ?? null}, ${case_ref ?? null}, ${reason ?? null},
        ${sql.json(details)}
      )`;
    return details;
  });

export const listPrivacyActions = (
  sql: Queryable,
  { kind, digest }: NonNullable<PrivacyAction['key']>,
): Promise<LoggedAction[]> => sql`
  select action, operator, case_ref, reason, details, created_at
  from privacy_log
  where digest = ${digest}
    and kind = ${kind}
  order by id`;

export interface UnlockOfPerson {
  customer_id: string;
  prospect_id: string;
  unlocked_at: string;
}

export interface ContactOfPerson {
  customer_id: string;
  id: string;
  prospect_id: string | null;
  removal_requested_at: string | null;
}

export interface Mentions {
  customer_id: string;
  where: 'verifications' | 'import failures' | 'users';
  count: number;
}

export const listUnlocksOf = (sql: Sql, prospectIds: readonly string[]): Promise<UnlockOfPerson[]> => sql`
  select customer_id, prospect_id, unlocked_at
  from unlocks
  where prospect_id = any(${prospectIds as string[]}::uuid[])
  order by unlocked_at, customer_id`;

export const listMergedContactsOf = async (sql: Sql, prospectIds: readonly string[]): Promise<string[]> => {
  const rows = await sql<{ merged_into: string }[]>`
    select merged_into
    from merged_records
    where prospect_id = any(${prospectIds as string[]}::uuid[])`;
  return rows.map(({ merged_into }) => merged_into);
};

/**
 * Returns the contacts, of all customers, that were unlocked from these people, have one of their addresses or profiles,
 * or have one of the given ids. Reads all contacts.
 */
export async function listContactsOf(
  sql: Sql,
  identifiers: readonly Identifier[],
  ids: readonly string[] = [],
): Promise<ContactOfPerson[]> {
  const [prospectIds, emails, profiles] = [
    valuesOf(identifiers, 'id'),
    identifiers.filter(({ kind }) => kind === 'email').flatMap(spellingsOf),
    valuesOf(identifiers, 'profnet_url'),
  ];
  const spellings = identifiers.filter(({ kind }) => kind === 'profnet_url').flatMap(spellingsOf);
  const rows = await sql<(ContactOfPerson & { is_found: boolean; urls: string[] })[]>`
    select customer_id, id, prospect_id, removal_requested_at, is_found, urls
    from (
      select
        customer_id,
        id,
        prospect_id,
        removal_requested_at,
        array_remove(array[profnet_url, social1_url, social2_url], null) as urls,
        id = any(${ids as string[]}::uuid[])
          or coalesce(prospect_id = any(${prospectIds}::uuid[]), false)
          or lower(work_email) = any(${emails}::text[])
          or coalesce(lower(personal_email) = any(${emails}::text[]), false)
          or exists (select 1 from unnest(other_emails) as other where lower(other) = any(${emails}::text[]))
          as is_found
      from contacts
    ) c
    where is_found
      or exists (
        select 1
        from unnest(${spellings}::text[]) as profile
        where position(profile in lower(array_to_string(urls, ' '))) > 0
      )
    order by customer_id, id`;
  // The profile of another person can begin with the same text.
  return rows
    .filter(({ is_found, urls }) => is_found || urls.some((url) => profiles.includes(profileKey(url) ?? '')))
    .map(({ is_found: _found, urls: _urls, ...contact }) => contact);
}

// Results of jobs are not read: inputs exist before the results, and are deleted with them.
/**
 * Counts the rows of each customer that contain one of the texts: inputs of jobs, records of imports, and users.
 * @param texts in lower case
 */
export const countMentions = async (sql: Sql, texts: readonly string[]): Promise<Mentions[]> => sql`
  select customer_id, 'verifications' as where, count(*) as count
  from job_inputs
  where lower(btrim(item)) = any(${texts as string[]}::text[])
  group by customer_id
  union all
  select customer_id, 'import failures', count(*)
  from import_rows
  where exists (select 1 from unnest(${texts as string[]}::text[]) as wanted where position(wanted in lower(cells::text)) > 0)
  group by customer_id
  union all
  select customer_id, 'users', count(*)
  from users
  where lower(email) = any(${texts as string[]}::text[])
  group by customer_id
  order by 1, 2`;

export async function namesOfCustomers(sql: Sql, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; business_name: string }[]>`
    select id, business_name
    from customers
    where id = any(${ids as string[]}::uuid[])`;
  return new Map(rows.map(({ id, business_name }) => [id, business_name]));
}

export interface Suppression {
  kind: IdentifierKind;
  /** Keyed hash of the identifier, made by `KeyedDigests` with the installation's secret. */
  digest: Buffer;
  /** True: the data of people with the identifier is deleted. False: these people are only kept out of the catalog. */
  is_erasure: boolean;
  reason: string;
  case_ref: string | null;
  received_at: string;
}

type SuppressionKey = Pick<Suppression, 'kind' | 'digest'>;

export const openDigests = async (sql: Queryable): Promise<KeyedDigests> =>
  new KeyedDigests(await findPersonIdSecret(sql));

export const toBytes = (digest: string): Buffer => Buffer.from(digest, 'latin1');

/**
 * Returns the keys by which an identifier can be suppressed. The key of its current form comes first, then that of its
 * former form.
 */
export const keysOf = (digests: KeyedDigests, identifier: Identifier): SuppressionKey[] =>
  formsOf(identifier).map((form) => ({ kind: identifier.kind, digest: toBytes(digests.of(form)) }));

const lockName = 'suppressions';

/** Locks the list of suppressed people for a change. Waits for running transactions that unlock people. */
export async function lockSuppressions(sql: Transaction): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${lockName}, 0))`;
}

/**
 * Returns the ids of suppressed people. Nobody else can be suppressed until the transaction ends. Call it before people
 * are unlocked.
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

export async function* readSuppressions(sql: Sql): AsyncGenerator<Pick<Suppression, 'kind' | 'digest' | 'is_erasure'>> {
  const batches = sql<Pick<Suppression, 'kind' | 'digest' | 'is_erasure'>[]>`
    select kind, digest, is_erasure
    from suppressions`.cursor(5_000);
  for await (const batch of batches) yield* batch;
}

export const listSuppressions = (sql: Queryable): Promise<Suppression[]> => sql`
  select kind, digest, is_erasure, reason, case_ref, received_at
  from suppressions
  order by received_at desc, kind, digest`;

export const findSuppressions = (sql: Queryable, keys: readonly SuppressionKey[]): Promise<Suppression[]> => sql`
  select kind, digest, is_erasure, reason, case_ref, received_at
  from suppressions
  where ${among(sql, keys)}
  order by received_at, kind, digest`;

export async function findErasures(sql: Queryable, prospectIds: readonly string[]): Promise<Map<string, string>> {
  const digests = await openDigests(sql);
  const ids = new Map(prospectIds.map((id) => [digests.of(id), id]));
  const keys = Array.from(ids.keys(), (digest) => ({ kind: 'id' as const, digest: toBytes(digest) }));
  const found = await findSuppressions(sql, keys);
  return new Map(found.map(({ digest, received_at }) => [ids.get(digest.toString('latin1'))!, received_at]));
}

export const findSuppressionsOfCase = (sql: Queryable, caseRef: string): Promise<SuppressionKey[]> => sql`
  select kind, digest
  from suppressions
  where case_ref = ${caseRef}`;

/**
 * Inserts suppressions. An existing suppression stays, but can become an erasure. Call `lockSuppressions` before.
 * @returns the number of new suppressions
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

export async function deleteSuppressions(sql: Transaction, keys: readonly SuppressionKey[]): Promise<number> {
  const { count } = await sql`
    delete from suppressions
    where ${among(sql, keys)}`;
  return count;
}

const kinds = (keys: readonly SuppressionKey[]): string[] => keys.map(({ kind }) => kind);
/** Returns digests in hexadecimal, because the driver cannot send arrays of bytes. */
const digestsOf = (keys: readonly SuppressionKey[]): string[] => keys.map(({ digest }) => digest.toString('hex'));

const among = (sql: Queryable, keys: readonly SuppressionKey[]) => sql`
  (kind, digest) in (
    select kind, decode(digest, 'hex')
    from unnest(${kinds(keys)}::text[], ${digestsOf(keys)}::text[]) as given (kind, digest)
  )`;

/**
 * Records that people whom the customer had unlocked were erased. A person can be erased again later.
 * @param erasures time of each person's request, by id
 * @returns the ids of the people whose erasure was not recorded yet
 */
export async function insertRemovals(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
  erasures: ReadonlyMap<string, string>,
): Promise<string[]> {
  // Until this transaction ends, no other one takes a later time: who has seen the latest removal has seen all before it.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`removals:${customerId}`}, 0))`;
  const rows = await sql<{ prospect_id: string }[]>`
    insert into removals (customer_id, prospect_id, removed_at)
    select ${customerId}::uuid, id, (select clock_timestamp())
    from unnest(${prospectIds as string[]}::uuid[]) as id
    order by id
    on conflict do nothing
    returning prospect_id`;
  const asked = Array.from(erasures, ([id, asked_at]) => ({ id, asked_at }));
  const again = await sql<{ prospect_id: string }[]>`
    update removals r
    set removed_at = (select clock_timestamp())
    from jsonb_to_recordset(${sql.json(asked)}) as erasure (id uuid, asked_at timestamptz)
    where r.customer_id = ${customerId}
      and r.prospect_id = any(${prospectIds as string[]}::uuid[])
      and r.prospect_id = erasure.id
      and r.removed_at < erasure.asked_at
    returning r.prospect_id`;
  return [...rows, ...again].map(({ prospect_id }) => prospect_id);
}

const removedAt: Column = { type: 'instant', value: 'removed_at', raw: 'removed_at', required: true };

export const listRemovals = (
  db: Database,
  customerId: string,
  { since, paginate = {} }: RemovalQuery,
): Promise<RecordPage<Removal>> =>
  readPage(
    {
      list: ['removals', since],
      customerId,
      columns: [removedAt],
      positionOf: ({ id, removed_at }) => ({ id, values: [removed_at] }),
    },
    paginate,
    (after) =>
      db.search(
        (sql) => sql<Removal[]>`
          select prospect_id as id, removed_at
          from removals
          where customer_id = ${customerId}
            ${since === undefined ? sql`` : sql`and removed_at >= ${since}::text::timestamptz`}
            ${after ? sql`and (removed_at, prospect_id) < (${after.values[0] as string}::text::timestamptz, ${after.id}::uuid)` : sql``}
          order by removed_at desc, prospect_id desc
          ${limitAndOffset(sql, paginate)}`,
      ),
  );

export async function listUnlockedIds(sql: Sql, after: string, limit: number): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select distinct prospect_id
    from unlocks
    where prospect_id > ${after}
    order by prospect_id
    limit ${limit}`;
  return rows.map(({ prospect_id }) => prospect_id);
}
