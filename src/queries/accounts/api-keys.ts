import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { conflict, type RefusalCause } from '../../errors.ts';
import { anySize, keyLimits } from '../../schemas/accounts.ts';
import type {
  ApproveOver,
  ApproveOverChange,
  ApiKey,
  Duration,
  SpendCapChanges,
  SpendCaps,
  Actor,
} from '../../schemas/accounts.ts';
import type { Scope } from '../../schemas/scopes.ts';
import type { RawToken, TokenHash } from '../../access/credentials.ts';
import type { Fragment } from '../../filters/sql.ts';
import { withSpent } from '../jobs/credits.ts';
import { recordEvent } from './customers.ts';

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

export type IssuedRow = Pick<
  ApiKey,
  'id' | 'name' | 'start' | 'permissions' | 'spend_caps' | 'approve_over' | 'status' | 'expires_at' | 'created_at'
>;

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

interface NewKey {
  name: string;
  expiration: Duration;
  permissions: Scope[];
  spendCaps: SpendCaps;
  approveOver?: ApproveOverChange;
  createdBy: string;
}

/**
 * Creates a key and its audit event. Returns the row without the secret.
 * @throws DomainError `conflict` if the customer has the maximum number of active keys
 */
export async function createApiKey(sql: Transaction, customerId: string, newKey: NewKey, token: RawToken, by: Actor) {
  await requireRoomForKey(sql, customerId);
  const [row] = await sql<[IssuedRow]>`
    with written as (
      insert into api_keys (
        customer_id, key_hash, name, start, permissions, spend_caps, approve_over, duration_days, expires_at, created_by
      )
      values (
        ${customerId}, ${token.hash()}, ${newKey.name}, ${token.start}, ${newKey.permissions}::text[],
        ${sql.json(newKey.spendCaps)}, ${sql.json(newKey.approveOver ?? {})}, ${newKey.expiration}, now() + make_interval(hours => 24 * ${newKey.expiration}::int),
        ${newKey.createdBy}
      )
      returning *
    )
    select ${issued(sql)}
    from written`;
  await recordEvent(sql, { event: 'api_key.generated', customerId, apiKeyId: row.id, by, details: described(row) });
  return row;
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

/** Changes that a rotation also makes. Undefined keeps the stored value. */
interface KeyChanges {
  name: string | undefined;
  expiration: Duration | undefined;
  permissions: Scope[] | undefined;
  spendCaps: SpendCapChanges | undefined;
  approveOver: ApproveOverChange | undefined;
}

/**
 * Changes a key that is not revoked. Returns undefined if there is none, or the condition does not hold.
 * @param changes SQL assignments
 */
async function updateKey(
  sql: Transaction,
  { customer_id: customerId, id }: Pick<KeyVersion, 'customer_id' | 'id'>,
  changes: Fragment,
  condition: Fragment,
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
  return row;
}

/**
 * Replaces the secret of a key and applies `changes`. The new secret is valid for `changes.expiration` days; by
 * default, as long as the old one was.
 * @returns undefined if the key is no longer active, or another call has replaced the secret since `before` was read
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
  const row = await updateKey(
    sql,
    before,
    sql`
      key_hash = ${token.hash()},
      start = ${token.start},
      name = coalesce(${changes.name ?? null}, name),
      permissions = coalesce(${changes.permissions ?? null}::text[], permissions),
      spend_caps = spend_caps || ${sql.json(changes.spendCaps ?? {})},
      approve_over = approve_over || ${sql.json(changes.approveOver ?? {})},
      duration_days = coalesce(${days}::int, duration_days),
      expires_at = now() + make_interval(hours => 24 * coalesce(${days}::int, duration_days))`,
    sql`expires_at > now() and key_hash = ${before.key_hash}`,
  );
  if (!row) return undefined;
  await recordEvent(sql, { event: 'api_key.rotated', customerId, apiKeyId, by, details: described(row) });
  return row;
}

export interface LimitChanges {
  spend_caps?: SpendCapChanges;
  approve_over?: ApproveOverChange;
}

/**
 * Changes the spend caps of a key, and the size from which its calls need an approval. Undefined keeps the stored
 * value.
 * @returns undefined if the customer has no such active key
 */
export async function changeSpendCaps(
  sql: Transaction,
  customerId: string,
  id: string,
  { spend_caps: caps = {}, approve_over: approveOver = {} }: LimitChanges,
  by: Actor,
): Promise<ApiKey | undefined> {
  const changes = sql`
    spend_caps = spend_caps || ${sql.json(caps)},
    approve_over = approve_over || ${sql.json(approveOver)}`;
  const row = await updateKey(sql, { customer_id: customerId, id }, changes, sql`expires_at > now()`);
  if (!row) return undefined;
  const details = { ...described(row), spend_caps: capsText(row.spend_caps) };
  await recordEvent(sql, { event: 'api_key.spend_caps_changed', customerId, apiKeyId: id, by, details });
  return findApiKey(sql, customerId, id);
}

export async function revokeApiKey(
  sql: Transaction,
  customerId: string,
  id: string,
  by: Actor,
): Promise<'revoked' | 'known' | undefined> {
  const change = sql`revoked_at = (select clock_timestamp())`;
  const revoked = await updateKey(sql, { customer_id: customerId, id }, change, sql`true`);
  if (!revoked) return (await findApiKey(sql, customerId, id)) && 'known';
  await recordEvent(sql, { event: 'api_key.revoked', customerId, apiKeyId: id, by, details: described(revoked) });
  return 'revoked';
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
