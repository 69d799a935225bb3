import type { Transaction } from '../database/db.ts';
import { conflict, notFound } from '../errors.ts';
import { changeSpendCaps, createApiKey, findApiKey, revokeApiKey, rotateApiKey } from '../queries/accounts/api-keys.ts';
import type { IssuedRow, KeyVersion, LimitChanges } from '../queries/accounts/api-keys.ts';
import { noCaps } from '../schemas/accounts.ts';
import type { ApiKey, IssuedKey, KeyChange, KeyRequest, Actor } from '../schemas/accounts.ts';
import { usualScopes } from '../schemas/scopes.ts';
import { disableEndpointsOf } from '../queries/accounts/webhook-endpoints.ts';
import { mintToken, type RawToken } from '../access/credentials.ts';

/** An API key with its secret in `key`. Show it only in the response to the request that issued it. */
export type Issued = IssuedKey['data'];

/**
 * Issues an API key. Without `permissions`, it gets `usualScopes`.
 * @param prefix beginning of the secret (`KEY_PREFIX`)
 */
export async function issueKey(
  sql: Transaction,
  { customerId, userId }: { customerId: string; userId: string },
  { name, expiration, permissions = [...usualScopes], spend_caps, approve_over = {} }: KeyRequest,
  prefix: string,
  by: Actor,
): Promise<Issued> {
  const key = {
    name: name.trim(),
    expiration,
    permissions: [...new Set(permissions)],
    spendCaps: { ...noCaps, ...spend_caps },
    approveOver: approve_over,
    createdBy: userId,
  };
  const token = mintToken(prefix);
  return withSecret(await createApiKey(sql, customerId, key, token, by), token);
}

/**
 * Replaces the secret of an API key. The previous secret stops working at once. Omitted properties stay unchanged.
 * @param before the key as it was when the request began
 * @param prefix beginning of the new secret (`KEY_PREFIX`)
 * @throws DomainError `not_found`; `conflict` if the key is not active, or was changed since `before` was read
 */
export async function replaceKey(
  sql: Transaction,
  before: KeyVersion | undefined,
  { name, expiration, permissions, spend_caps, approve_over }: KeyChange,
  prefix: string,
  by: Actor,
): Promise<Issued> {
  requireActive(before);
  const changes = {
    name: name?.trim(),
    expiration,
    permissions: permissions && [...new Set(permissions)],
    spendCaps: spend_caps,
    approveOver: approve_over,
  };
  const token = mintToken(prefix);
  const row = await rotateApiKey(sql, before, changes, token, by);
  if (!row) throw conflict('The API key was rotated or revoked at the same time');
  return withSecret(row, token);
}

/**
 * Changes the spend caps and the approval limits of an active API key. Omitted limits stay unchanged.
 * @throws DomainError `not_found`; `conflict` if the key is not active
 */
export async function setSpendCaps(
  sql: Transaction,
  customerId: string,
  id: string,
  changes: LimitChanges,
  by: Actor,
): Promise<ApiKey> {
  const changed = await changeSpendCaps(sql, customerId, id, changes, by);
  if (changed) return changed;
  const key = await findApiKey(sql, customerId, id);
  if (!key) throw notFound('API key');
  throw conflict(`The API key is ${key.status}; only the caps of an active key can be changed`);
}

function requireActive(key: KeyVersion | undefined): asserts key is KeyVersion {
  if (!key) throw notFound('API key');
  if (key.status !== 'active') throw conflict(`The API key is ${key.status}; only an active key can be rotated`);
}

const withSecret = (row: IssuedRow, token: RawToken): Issued => ({ ...row, key: token.reveal() });

/**
 * Revokes an API key permanently, and disables the webhook endpoints that it created.
 * @returns false if the customer has no such key
 */
export async function revokeKey(sql: Transaction, customerId: string, id: string, by: Actor): Promise<boolean> {
  const found = await revokeApiKey(sql, customerId, id, by);
  if (found === 'revoked') await disableEndpointsOf(sql, customerId, id);
  return found !== undefined;
}
