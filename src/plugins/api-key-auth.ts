import type { FastifyInstance, FastifyRequest } from 'fastify';
import { batchLookups } from '../batch-lookups.ts';
import type { KeyCaller } from '../caller.ts';
import { Unauthorized } from '../errors.ts';
import type { UnauthenticatedLimit } from '../limits/unauthenticated.ts';
import { findKeyStates, recordKeyUse } from '../queries/api-keys.ts';
import { serviceItself } from '../requester.ts';
import { recogniseToken, type TokenHash } from '../tokens.ts';

/**
 * Authenticates a request by its API key and returns the caller.
 * @throws Unauthorized whenever the key is not valid, with the same message for every reason
 */
export type KeyAuthenticator = (request: FastifyRequest) => Promise<KeyCaller>;

/**
 * Creates the API key authenticator. It reads the key from the database after each request arrives, never from a cache,
 * so a revoked key is rejected by the next request on every instance. An unavailable database is an error of its own,
 * not a refusal.
 * @param unauthenticatedLimit limits the look-ups of requests without a valid key
 */
export function keyAuthenticator(app: FastifyInstance, unauthenticatedLimit: UnauthenticatedLimit): KeyAuthenticator {
  const find = batchLookups(
    asText,
    (hashes: TokenHash[]) => app.db.credentials((sql) => findKeyStates(sql, hashes)),
    (key) => key.key_hash,
  );
  const noteUse = usageRecorder(app);
  return async (request) => {
    const hash = presentedHash(request.headers.authorization);
    const key = await unauthenticatedLimit.lookUp(request.address, () => find(hash));
    if (!key) throw new Unauthorized('key', 'unknown');
    if (key.refusal) throw new Unauthorized('key', key.refusal);
    if (key.use_unrecorded) noteUse(key.id);
    return { kind: 'key', keyId: key.id, customerId: key.customer_id, userId: key.created_by, scopes: key.permissions };
  };
}

/**
 * Returns the hash of the key in `Authorization: X-API-Key <key>`. The scheme is case-insensitive, as in all HTTP
 * authentication (RFC 9110, 11.1).
 * @throws Unauthorized
 */
function presentedHash(header: string | undefined): TokenHash {
  if (header === undefined) throw new Unauthorized('key', 'missing');
  const token = recogniseToken(/^x-api-key +(\S+)$/i.exec(header)?.[1] ?? '');
  if (!token) throw new Unauthorized('key', 'malformed');
  return token.hash();
}

/**
 * Converts a hash to a string of one character per byte, for use as a map key: maps do not compare buffers by value.
 */
export const asText = (hash: TokenHash): string => hash.toString('latin1');

/** How long key uses are collected before one statement writes them (ms). */
const recordingDelay = 1_000;

/**
 * Returns a function that records the use of a key. Writes `last_used_at` in the background, with one statement per
 * second for all keys; the pending ones are written when the app closes.
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
      .for({ customerId: serviceItself })
      .transaction((sql) => recordKeyUse(sql, keyIds))
      .catch((error: unknown) => app.log.warn({ err: error }, 'the last use of API keys was not recorded'));
  };

  app.addHook('onClose', flush);
  return (keyId) => {
    pending.add(keyId);
    timer ??= setTimeout(() => void flush(), recordingDelay);
  };
}
