import type { FastifyInstance, FastifyRequest } from 'fastify';
import { batchLookups } from '../../database/batch-lookups.ts';
import type { KeyCaller } from '../../credentials/caller.ts';
import { Unauthorized } from '../../errors.ts';
import type { UnauthenticatedLimit } from '../../limits/unauthenticated.ts';
import { findKeyStateById, findKeyStates, recordKeyUse } from '../../queries/accounts/api-keys.ts';
import { approvedCall } from '../inside-calls.ts';
import { serviceItself } from '../../credentials/requester.ts';
import { recogniseToken, type TokenHash } from '../../credentials/tokens.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if the route takes an API key also as `Authorization: Bearer <key>`. It takes no session token. */
    keyAsBearer?: true;
  }
}

/**
 * Authenticates a request by its API key. Returns the owner and the scopes (permissions) of the key.
 * @throws Unauthorized if the key is missing or invalid. The error message is the same in both cases.
 * @throws DomainError `unavailable` if the database does not respond.
 */
type KeyAuthenticator = (request: FastifyRequest) => Promise<KeyCaller>;

/**
 * Creates the function that authenticates requests by API key. The function reads the key from the database for each
 * request, so a revoked key is rejected at once.
 * @param unauthenticatedLimit Limits how many keys are looked up for an IP address that sends many invalid keys.
 */
export function keyAuthenticator(app: FastifyInstance, unauthenticatedLimit: UnauthenticatedLimit): KeyAuthenticator {
  const find = batchLookups(
    asText,
    (hashes: TokenHash[]) => app.db.credentials((sql) => findKeyStates(sql, hashes)),
    (key) => key.key_hash,
  );
  const noteUse = usageRecorder(app);
  const lookUp = (request: FastifyRequest) => {
    const hash = presentedHash(request);
    return unauthenticatedLimit.lookUp(request.address, () => find(hash));
  };
  return async (request) => {
    const approved = approvedCall();
    const key = approved
      ? await app.db.credentials((sql) => findKeyStateById(sql, approved.customerId, approved.apiKeyId))
      : await lookUp(request);
    if (!key) throw new Unauthorized('key', 'unknown');
    if (key.refusal) throw new Unauthorized('key', key.refusal);
    if (key.use_unrecorded) noteUse(key.id);
    return {
      kind: 'key',
      keyId: key.id,
      customerId: key.customer_id,
      userId: key.created_by,
      scopes: key.permissions,
      approveOver: key.approve_over,
      approved,
    };
  };
}

/**
 * Returns the hash of the API key in the request header `Authorization: X-API-Key <key>`. The word `X-API-Key` is
 * case-insensitive (RFC 9110, 11.1).
 * @throws Unauthorized if the header is missing or contains no well-formed key.
 */
function presentedHash({ headers: { authorization }, routeOptions }: FastifyRequest): TokenHash {
  const schemes = routeOptions.config.keyAsBearer ? ['x-api-key', 'bearer'] : ['x-api-key'];
  return hashOf('key', tokenIn('key', authorization, schemes));
}

/**
 * Returns the token in the request header `Authorization: <scheme> <token>`. Returns undefined if the header is missing,
 * and an empty string if it contains no single token.
 * @param schemes in lower case
 * @throws Unauthorized if the header has another scheme
 */
export function tokenIn(
  credential: 'key' | 'session',
  authorization: string | undefined,
  schemes: readonly string[],
): string | undefined {
  if (authorization === undefined) return undefined;
  const [scheme = '', token = '', ...more] = authorization.split(/ +/);
  if (!schemes.includes(scheme.toLowerCase())) throw new Unauthorized(credential, 'wrong_scheme');
  return more.length === 0 ? token : '';
}

/** @throws Unauthorized if there is no token, or a text that is none */
export function hashOf(credential: 'key' | 'session', text: string | undefined): TokenHash {
  if (text === undefined) throw new Unauthorized(credential, 'missing');
  const token = recogniseToken(text);
  if (!token) throw new Unauthorized(credential, 'malformed');
  return token.hash();
}

export const asText = (hash: TokenHash): string => hash.toString('latin1');

/**
 * Delay between the use of an API key and the database write that records this use (ms). One statement writes all uses
 * during this time.
 */
const recordingDelay = 1_000;

/**
 * Returns a function that records the use of an API key. A background task updates `last_used_at` of all used keys, at
 * most once per second, with one statement.
 */
function usageRecorder(app: FastifyInstance): (keyId: string) => void {
  const pending = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    const keyIds = [...pending];
    pending.clear();
    if (keyIds.length === 0) return;
    // A failed write is only logged: the key's next use records it again.
    await app.db
      .for({ customerId: serviceItself }, null)
      .transaction((sql) => recordKeyUse(sql, keyIds))
      .catch((error: unknown) => app.log.warn({ err: error }, 'the last use of API keys was not recorded'));
  };

  app.addHook('onClose', flush);
  return (keyId) => {
    pending.add(keyId);
    timer ??= setTimeout(() => void flush(), recordingDelay);
  };
}
