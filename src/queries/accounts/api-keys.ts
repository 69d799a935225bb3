import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { conflict, notFound, type RefusalCause } from '../../errors.ts';
import { anySize, keyLimits, noCaps } from '../../schemas/accounts.ts';
import type {
  ApproveOver,
  ApiKey,
  IssuedKey,
  KeyChange,
  KeyRequest,
  SpendCaps,
  Actor,
} from '../../schemas/accounts.ts';
import { usualScopes, type Scope } from '../../schemas/scopes.ts';
import { mintToken, type TokenHash } from '../../access/credentials.ts';
import type { Fragment } from '../../filters/sql.ts';
import { withSpent } from '../jobs/credits.ts';
import { recordEvent } from './customers.ts';
import { disableEndpointsOf } from './webhook-endpoints.ts';

interface KeyState {
  key_hash: TokenHash;
  id: string;
  customer_id: string;
  created_by: string;
  permissions: Scope[];
  refusal: Extract<RefusalCause, 'revoked' | 'expired' | 'suspended'> | null;
  approve_over: Partial<ApproveOver>;
  use_unrecorded: boolean;
}

export const findKeyStates = (sql: Sql, hashes: TokenHash[]): Promise<KeyState[]> => sql`
  ${keyState(sql)}
  where k.key_hash = any(${sql.array(hashes)})`;

export const findKeyStateById = async (sql: Sql, customerId: string, id: string): Promise<KeyState | undefined> =>
  (
    await sql<KeyState[]>`
      ${keyState(sql)}
      where k.customer_id = ${customerId}
        and k.id = ${id}`
  )[0];

const keyState = (sql: Sql) => sql`
  select k.key_hash, k.id, k.customer_id, k.created_by, k.permissions, k.approve_over,
    case
      when k.revoked_at is not null then 'revoked'
      when k.expires_at <= now() then 'expired'
      when (select c.status from customers c where c.id = k.customer_id) <> 'OK' then 'suspended'
    end as refusal,
    coalesce(k.last_used_at <= now() - interval '1 minute', true) as use_unrecorded
  from api_keys k`;

export async function recordKeyUse(sql: Transaction, keyIds: string[]): Promise<void> {
  // A locked row: another process records the same use, or the key is being changed.
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

const status = (sql: Queryable) => sql`
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end`;

const issued = (sql: Queryable) => sql`
  id, name, start, permissions, spend_caps, ${sql.json(anySize)} || approve_over as approve_over,
  ${status(sql)} as status, expires_at, created_at`;

type IssuedRow = Omit<Issued, 'key'>;

type ShownRow = Omit<ApiKey, 'spent'>;

const shown = (sql: Queryable) => sql`
  ${issued(sql)}, updated_at, last_used_at, revoked_at, created_by`;

const endsAt = (sql: Queryable) => sql`least(revoked_at, expires_at)`;

/** Returns the active keys, and the last `keyLimits.endedShown` keys that were revoked or expired, newest first. */
export async function listApiKeys(sql: Queryable, customerId: string): Promise<ApiKey[]> {
  const keys = await sql<ShownRow[]>`
    with ended as (
      select ${shown(sql)}
      from api_keys
      where customer_id = ${customerId}
        and ${endsAt(sql)} <= now()
      order by ${endsAt(sql)} desc
      limit ${keyLimits.endedShown}
    )
    select ${shown(sql)}
    from api_keys
    where customer_id = ${customerId}
      and ${endsAt(sql)} > now()
    union all
    select *
    from ended
    order by id desc`;
  return withSpent(sql, customerId, keys);
}

export async function findApiKey(sql: Queryable, customerId: string, id: string): Promise<ApiKey | undefined> {
  const keys = await sql<ShownRow[]>`
    select ${shown(sql)}
    from api_keys
    where customer_id = ${customerId}
      and id = ${id}`;
  return (await withSpent(sql, customerId, keys))[0];
}

/** An API key with its secret in `key`. Show it only in the response to the request that issued it. */
export type Issued = IssuedKey['data'];

/**
 * Issues an API key. Without `permissions`, it gets `usualScopes`.
 * @param prefix beginning of the secret (`KEY_PREFIX`)
 * @throws DomainError `conflict` if the customer has the maximum number of active keys
 */
export async function issueKey(
  sql: Transaction,
  { customerId, userId }: { customerId: string; userId: string },
  { name, expiration, permissions = [...usualScopes], spend_caps, approve_over = {} }: KeyRequest,
  prefix: string,
  by: Actor,
): Promise<Issued> {
  await requireRoomForKey(sql, customerId);
  const token = mintToken(prefix);
  const [row] = await sql<[IssuedRow]>`
    with written as (
      insert into api_keys (
        customer_id, key_hash, name, start, permissions, spend_caps, approve_over, duration_days, expires_at, created_by
      )
      values (
        ${customerId}, ${token.hash()}, ${name.trim()}, ${token.start}, ${[...new Set(permissions)]}::text[],
        ${sql.json({ ...noCaps, ...spend_caps })}, ${sql.json(approve_over)}, ${expiration},
        now() + make_interval(hours => 24 * ${expiration}::int), ${userId}
      )
      returning *
    )
    select ${issued(sql)}
    from written`;
  await recordEvent(sql, { event: 'api_key.generated', customerId, apiKeyId: row.id, by, details: described(row) });
  return { ...row, key: token.reveal() };
}

async function requireRoomForKey(sql: Transaction, customerId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`api keys:${customerId}`}, 0))`;
  const [{ live }] = await sql<[{ live: number }]>`
    select count(*) as live
    from api_keys
    where customer_id = ${customerId}
      and ${endsAt(sql)} > now()`;
  if (live < keyLimits.live) return;
  throw conflict(`A customer can have at most ${keyLimits.live} API keys that are neither revoked nor expired`);
}

const described = ({ name, start, spend_caps, approve_over: over }: IssuedRow) => {
  const hasCap = Object.values(spend_caps).some((cap) => cap !== null);
  const isAny = over.credits === null && over.records === null;
  return {
    name,
    start,
    ...(hasCap ? { spend_caps: capsText(spend_caps) } : {}),
    ...(isAny ? {} : { approve_over: `credits ${over.credits ?? 'any'}, records ${over.records ?? 'any'}` }),
  };
};

const capsText = (caps: SpendCaps): string =>
  Object.entries(caps)
    .map(([pool, cap]) => `${pool} ${cap === null ? 'none' : `${cap.amount}/${cap.per}`}`)
    .join(', ');

export interface KeyVersion {
  customer_id: string;
  id: string;
  key_hash: TokenHash;
  status: ApiKey['status'];
}

export const findKeyVersions = (sql: Sql, keys: Pick<KeyVersion, 'customer_id' | 'id'>[]): Promise<KeyVersion[]> => sql`
  select customer_id, id, key_hash, ${status(sql)} as status
  from api_keys
  join unnest(
    ${keys.map((key) => key.customer_id)}::uuid[],
    ${keys.map((key) => key.id)}::uuid[]
  ) as wanted (customer_id, id) using (customer_id, id)`;

/**
 * Changes a key that is not revoked, and records the event. Returns undefined if there is none, or the condition does
 * not hold.
 * @param changes SQL assignments
 */
async function updateKey(
  sql: Transaction,
  { customer_id: customerId, id }: Pick<KeyVersion, 'customer_id' | 'id'>,
  event: 'api_key.rotated' | 'api_key.spend_caps_changed' | 'api_key.revoked',
  { changes, condition = sql`true` }: { changes: Fragment; condition?: Fragment },
  by: Actor,
): Promise<IssuedRow | undefined> {
  const [row] = await sql<IssuedRow[]>`
    with written as (
      update api_keys
      set ${changes}, updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}
        and revoked_at is null
        and ${condition}
      returning *
    )
    select ${issued(sql)}
    from written`;
  if (!row) return undefined;
  const caps = event === 'api_key.spend_caps_changed' && { spend_caps: capsText(row.spend_caps) };
  await recordEvent(sql, { event, customerId, apiKeyId: id, by, details: { ...described(row), ...caps } });
  return row;
}

/**
 * Replaces the secret of an API key. The previous secret stops working at once. Omitted properties stay unchanged. The
 * new secret is valid for `expiration` days; by default, as long as the old one was.
 * @param before the key as it was when the request began
 * @param prefix beginning of the new secret (`KEY_PREFIX`)
 * @throws DomainError `not_found`; `conflict` if the key is not active, or was changed since `before` was read
 */
export async function replaceKey(
  sql: Transaction,
  before: KeyVersion | undefined,
  { name, expiration, permissions, spend_caps = {}, approve_over = {} }: KeyChange,
  prefix: string,
  by: Actor,
): Promise<Issued> {
  if (!before) throw notFound('API key');
  if (before.status !== 'active') throw conflict(`The API key is ${before.status}; only an active key can be rotated`);
  const token = mintToken(prefix);
  const days = expiration ?? null;
  const changes = sql`
    key_hash = ${token.hash()},
    start = ${token.start},
    name = coalesce(${name?.trim() ?? null}, name),
    permissions = coalesce(${permissions ? [...new Set(permissions)] : null}::text[], permissions),
    spend_caps = spend_caps || ${sql.json(spend_caps)},
    approve_over = approve_over || ${sql.json(approve_over)},
    duration_days = coalesce(${days}::int, duration_days),
    expires_at = now() + make_interval(hours => 24 * coalesce(${days}::int, duration_days))`;
  const condition = sql`expires_at > now() and key_hash = ${before.key_hash}`;
  const row = await updateKey(sql, before, 'api_key.rotated', { changes, condition }, by);
  if (!row) throw conflict('The API key was rotated or revoked at the same time');
  return { ...row, key: token.reveal() };
}

/**
 * Changes the spend caps of an active API key, and the size from which its calls need an approval. Omitted limits stay
 * unchanged.
 * @throws DomainError `not_found`; `conflict` if the key is not active
 */
export async function setSpendCaps(
  sql: Transaction,
  customerId: string,
  id: string,
  { spend_caps = {}, approve_over = {} }: Pick<KeyChange, 'spend_caps' | 'approve_over'>,
  by: Actor,
): Promise<ApiKey> {
  const changes = sql`
    spend_caps = spend_caps || ${sql.json(spend_caps)},
    approve_over = approve_over || ${sql.json(approve_over)}`;
  const change = { changes, condition: sql`expires_at > now()` };
  const changed = await updateKey(sql, { customer_id: customerId, id }, 'api_key.spend_caps_changed', change, by);
  const key = await findApiKey(sql, customerId, id);
  if (!key) throw notFound('API key');
  if (!changed) throw conflict(`The API key is ${key.status}; only the caps of an active key can be changed`);
  return key;
}

/**
 * Revokes an API key permanently, and disables the webhook endpoints that it created.
 * @returns false if the customer has no such key
 */
export async function revokeKey(sql: Transaction, customerId: string, id: string, by: Actor): Promise<boolean> {
  const change = { changes: sql`revoked_at = (select clock_timestamp())` };
  const revoked = await updateKey(sql, { customer_id: customerId, id }, 'api_key.revoked', change, by);
  if (!revoked) return (await findApiKey(sql, customerId, id)) !== undefined;
  await disableEndpointsOf(sql, customerId, id);
  return true;
}

export async function lockUnrevokedKey(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const rows = await sql`
    select 1
    from api_keys
    where customer_id = ${customerId}
      and id = ${id}
      and revoked_at is null
    for share`;
  return rows.length > 0;
}
