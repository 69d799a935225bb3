import type { FastifyInstance, FastifyRequest } from 'fastify';
import { batchLookups } from '../../database/batch-lookups.ts';
import type { SessionCaller } from '../../credentials/caller.ts';
import { Unauthorized } from '../../errors.ts';
import type { UnauthenticatedLimit } from '../../limits/unauthenticated.ts';
import { findSessions } from '../../queries/accounts/sessions.ts';
import type { TokenHash } from '../../credentials/tokens.ts';
import { asText, hashOf, tokenIn } from './api-key-auth.ts';

/**
 * Authenticates a request by its session token. Returns the logged-in user.
 * @throws Unauthorized if the token is missing or invalid. The error message is the same in both cases.
 */
type SessionAuthenticator = (request: FastifyRequest) => Promise<SessionCaller>;

/**
 * Creates the function that authenticates requests by session token. The function reads the session from the database
 * for each request.
 * @param tokenOf Returns the session token of a request, not yet validated. Returns undefined if the request has no
 *   token.
 * @param unauthenticatedLimit Limits how many tokens are looked up for an IP address that sends many invalid tokens.
 */
export function sessionAuthenticator(
  app: FastifyInstance,
  unauthenticatedLimit: UnauthenticatedLimit,
  tokenOf: (request: FastifyRequest) => string | undefined,
): SessionAuthenticator {
  const find = batchLookups(
    asText,
    (hashes: TokenHash[]) => app.db.credentials((sql) => findSessions(sql, hashes)),
    (session) => session.token_hash,
  );
  return async (request) => {
    const tokenHash = hashOf('session', tokenOf(request));
    const session = await unauthenticatedLimit.lookUp(request.address, () => find(tokenHash));
    if (!session) throw new Unauthorized('session', 'unknown');
    if (session.refusal) throw new Unauthorized('session', session.refusal);
    const { user_id: userId, customer_id: customerId, email, role } = session;
    return { kind: 'session', userId, customerId, email, role, tokenHash };
  };
}

/**
 * Returns the session token from the request header `Authorization: Bearer <token>` (RFC 6750). The word `Bearer` is
 * case-insensitive. Returns undefined if the header is missing, and an empty string if it contains no single token.
 * @throws Unauthorized if the header has another scheme
 */
export const bearerToken = ({ headers: { authorization } }: FastifyRequest): string | undefined =>
  tokenIn('session', authorization, ['bearer']);
