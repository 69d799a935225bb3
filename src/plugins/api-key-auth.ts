import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { KeyCaller } from '../caller.ts';
import { Unauthorized } from '../errors.ts';
import { gather } from '../gather.ts';
import { findKeys, recordUse } from '../queries/api-keys.ts';
import { serviceItself } from '../requester.ts';
import { recogniseToken, type TokenHash } from '../tokens.ts';
import type { UnauthenticatedLimit } from '../unauthenticated.ts';

/** Finds the holder of a request's API key, or throws `Unauthorized` whatever is wrong with it. */
export type KeyAuthenticator = (request: FastifyRequest) => Promise<KeyCaller>;

/**
 * What decides is read from the database after the request arrived, never from a cache: a revoked key is refused by the
 * next request on every instance. A database that does not answer is its own error, not a refusal.
 */
export function keyAuthenticator(app: FastifyInstance, strangers: UnauthenticatedLimit): KeyAuthenticator {
  const find = gather(
    asText,
    (hashes: TokenHash[]) => app.db.credentials((sql) => findKeys(sql, hashes)),
    (key) => key.key_hash,
  );
  const noteUse = useRecorder(app);
  return async (request) => {
    const hash = presentedHash(request.headers.authorization);
    const key = await strangers.lookUp(request.address, () => find(hash));
    if (!key) throw new Unauthorized('key', 'unknown');
    if (key.refusal) throw new Unauthorized('key', key.refusal);
    if (key.use_unrecorded) noteUse(key.id);
    return { kind: 'key', keyId: key.id, customerId: key.customer_id, userId: key.created_by, scopes: key.permissions };
  };
}

/** `Authorization: X-API-Key <key>`; the scheme in any case, as in every HTTP authentication (RFC 9110, 11.1). */
function presentedHash(header: string | undefined): TokenHash {
  if (header === undefined) throw new Unauthorized('key', 'missing');
  const token = recogniseToken(/^x-api-key +(\S+)$/i.exec(header)?.[1] ?? '');
  if (!token) throw new Unauthorized('key', 'malformed');
  return token.hash();
}

/** Buffers do not compare by value in maps; a string of one character a byte does. */
export const asText = (hash: TokenHash): string => hash.toString('latin1');

/** How long uses are collected before they are written, in ms. */
const recordingDelay = 1_000;

/** Writes `last_used_at` behind the requests' backs: one statement for all keys of a second. What is pending is written at close. */
function useRecorder(app: FastifyInstance): (keyId: string) => void {
  const pending = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  const flush = async () => {
    clearTimeout(timer);
    timer = undefined;
    const keyIds = [...pending];
    pending.clear();
    if (keyIds.length === 0) return;
    // A lost note is made up for by the key's next use.
    await app.db
      .for({ customerId: serviceItself })
      .transaction((sql) => recordUse(sql, keyIds))
      .catch((error: unknown) => app.log.warn({ err: error }, 'the last use of keys was not recorded'));
  };

  app.addHook('onClose', flush);
  return (keyId) => {
    pending.add(keyId);
    timer ??= setTimeout(() => void flush(), recordingDelay);
  };
}
