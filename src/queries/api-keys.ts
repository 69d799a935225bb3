import type { Sql, Transaction } from '../database/db.ts';
import type { RefusalCause } from '../errors.ts';
import type { ApiKey, Duration } from '../schemas/api-keys.ts';
import type { Actor } from '../schemas/audit.ts';
import type { Scope } from '../schemas/scopes.ts';
import type { RawToken, TokenHash } from '../tokens.ts';
import { recordEvent } from './audit.ts';

/**
 * What the authentication of a request must know about an API key. `refusal` says why the key is rejected; it is null
 * when the key may be used now.
 */
export interface KeyState {
  key_hash: TokenHash;
  id: string;
  customer_id: string;
  created_by: string;
  permissions: Scope[];
  refusal: Extract<RefusalCause, 'revoked' | 'expired' | 'suspended'> | null;
  /** Whether the key's use must be recorded: `last_used_at` is empty or at least a minute old. */
  use_unrecorded: boolean;
}

/**
 * Returns the current states of the API keys with these hashes, by the database clock. Callers collect their look-ups
 * and make one call for all. The customer is read by a subquery, because for a join the planner might scan all
 * customers.
 */
export const findKeyStates = (sql: Sql, hashes: TokenHash[]): Promise<KeyState[]> =>
  sql<KeyState[]>`
    select k.key_hash, k.id, k.customer_id, k.created_by, k.permissions,
      case
        when k.revoked_at is not null then 'revoked'
        when k.expires_at <= now() then 'expired'
        when (select c.status from customers c where c.id = k.customer_id) <> 'OK' then 'suspended'
      end as refusal,
      coalesce(k.last_used_at <= now() - interval '1 minute', true) as use_unrecorded
    from api_keys k
    where k.key_hash = any(${sql.array(hashes)})`;

/**
 * Records that these API keys were used, each at most once a minute. Skips a row that is locked: another instance is
 * recording the same use, or the key is being changed.
 */
export async function recordKeyUse(sql: Transaction, keyIds: string[]): Promise<void> {
  await sql`
    update api_keys
    set last_used_at = now()
    where id in (
      select id
      from api_keys
      where id = any(${keyIds}::uuid[])
        and coalesce(last_used_at <= now() - interval '1 minute', true)
      for no key update skip locked
    )`;
}

const status = (sql: Sql | Transaction) => sql`
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end`;

const issued = (sql: Sql | Transaction) => sql`
  id, name, start, permissions, ${status(sql)} as status, expires_at, created_at`;

/** The data of a new or rotated key in the response, without the key itself. */
export type IssuedRow = Pick<ApiKey, 'id' | 'name' | 'start' | 'permissions' | 'status' | 'expires_at' | 'created_at'>;

/** Returns the customer's API keys, newest first. */
export const listApiKeys = (sql: Sql | Transaction, customerId: string): Promise<ApiKey[]> =>
  sql<ApiKey[]>`
    select ${issued(sql)}, updated_at, last_used_at, revoked_at, created_by
    from api_keys
    where customer_id = ${customerId}
    order by id desc`;

export interface NewKey {
  name: string;
  expiration: Duration;
  permissions: Scope[];
  createdBy: string;
}

/** Creates an API key and records the audit event. */
export async function createApiKey(
  sql: Transaction,
  customerId: string,
  given: NewKey,
  token: RawToken,
  by: Actor,
): Promise<IssuedRow> {
  const [row] = await sql<[IssuedRow]>`
    with written as (
      insert into api_keys (customer_id, key_hash, name, start, permissions, duration_days, expires_at, created_by)
      values (
        ${customerId}, ${token.hash()}, ${given.name}, ${token.start}, ${given.permissions}::text[], ${given.expiration},
        now() + make_interval(hours => 24 * ${given.expiration}::int), ${given.createdBy}
      )
      returning *
    )
    select ${issued(sql)}
    from written`;
  await recordEvent(sql, { event: 'api_key.generated', customerId, apiKeyId: row.id, by, details: described(row) });
  return row;
}

const described = (row: IssuedRow) => ({ name: row.name, start: row.start });

/**
 * The state of an API key before its rotation (the replacement of its secret). The rotation succeeds only if the key
 * still has this state, so that only one of two concurrent rotations succeeds.
 */
export interface KeyVersion {
  customer_id: string;
  id: string;
  key_hash: TokenHash;
  status: ApiKey['status'];
}

/** Returns the current hash and status of these API keys. Callers collect their look-ups and make one call for all. */
export const findKeyVersions = (sql: Sql, keys: Pick<KeyVersion, 'customer_id' | 'id'>[]): Promise<KeyVersion[]> =>
  sql<KeyVersion[]>`
    select customer_id, id, key_hash, ${status(sql)} as status
    from api_keys
    join unnest(
      ${keys.map((key) => key.customer_id)}::uuid[],
      ${keys.map((key) => key.id)}::uuid[]
    ) as wanted (customer_id, id) using (customer_id, id)`;

/** The optional changes to an API key when its secret is replaced. An undefined field stays as it is. */
export interface KeyChanges {
  name: string | undefined;
  expiration: Duration | undefined;
  permissions: Scope[] | undefined;
}

/**
 * Replaces an API key's secret. The new secret is valid for the given duration, or else for as long as the old one was.
 * @returns undefined, with nothing changed, if the key is no longer active or its secret is no longer that of `before`
 */
export async function rotateApiKey(
  sql: Transaction,
  before: KeyVersion,
  changes: KeyChanges,
  token: RawToken,
  by: Actor,
): Promise<IssuedRow | undefined> {
  const { customer_id: customerId, id: apiKeyId } = before;
  const days = changes.expiration ?? null;
  const [row] = await sql<IssuedRow[]>`
    with written as (
      update api_keys
      set key_hash = ${token.hash()},
        start = ${token.start},
        name = coalesce(${changes.name ?? null}, name),
        permissions = coalesce(${changes.permissions ?? null}::text[], permissions),
        duration_days = coalesce(${days}::int, duration_days),
        expires_at = now() + make_interval(hours => 24 * coalesce(${days}::int, duration_days)),
        updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${apiKeyId}
        and key_hash = ${before.key_hash}
        and revoked_at is null
        and expires_at > now()
      returning *
    )
    select ${issued(sql)}
    from written`;
  if (!row) return undefined;
  await recordEvent(sql, { event: 'api_key.rotated', customerId, apiKeyId, by, details: described(row) });
  return row;
}

/**
 * Revokes a key permanently. Does nothing if the key is already revoked.
 * @returns whether the customer has this key
 */
export async function revokeApiKey(sql: Transaction, customerId: string, id: string, by: Actor): Promise<boolean> {
  const [revoked] = await sql<IssuedRow[]>`
    with written as (
      update api_keys
      set revoked_at = (select clock_timestamp()), updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}
        and revoked_at is null
      returning *
    )
    select ${issued(sql)}
    from written`;
  if (!revoked) return keyExists(sql, customerId, id);
  await recordEvent(sql, { event: 'api_key.revoked', customerId, apiKeyId: id, by, details: described(revoked) });
  return true;
}

/** Returns the id of the customer that owns a key. Only the command line searches across customers. */
export async function findCustomerOfKey(sql: Sql | Transaction, id: string): Promise<string | undefined> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from api_keys
    where id = ${id}`;
  return row?.customer_id;
}

async function keyExists(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const found = await sql`
    select from api_keys
    where customer_id = ${customerId}
      and id = ${id}`;
  return found.count === 1;
}
