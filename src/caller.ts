import type { Scope } from './schemas/scopes.ts';
import type { Role } from './schemas/users.ts';
import type { TokenHash } from './tokens.ts';

/**
 * The authenticated sender of a request: an API key or a logged-in user. A caller may access only the data of one
 * customer, `customerId`.
 */
export type Caller = KeyCaller | SessionCaller;

/** A sender of requests that authenticated with an API key. */
export interface KeyCaller {
  kind: 'key';
  keyId: string;
  customerId: string;
  /** The user who created the key. */
  userId: string;
  scopes: readonly Scope[];
}

/** A sender of requests that authenticated with a session token: a logged-in user. */
export interface SessionCaller {
  kind: 'session';
  userId: string;
  customerId: string;
  email: string;
  role: Role;
  tokenHash: TokenHash;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated sender of the request. Set on every route that requires authentication. */
    caller: Caller;
    /**
     * The IP address of the request's sender, validated and normalised. Behind a trusted proxy (`TRUST_PROXY`), the
     * address that the proxy forwarded. Use it instead of Fastify's `request.ip`, which ignores `TRUST_PROXY`.
     */
    address: string;
  }
}
