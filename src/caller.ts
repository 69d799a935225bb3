import type { Scope } from './schemas/scopes.ts';
import type { Role } from './schemas/users.ts';
import type { TokenHash } from './tokens.ts';

/**
 * The authenticated sender of a request. It is known before the request's body is read. The request may access only the
 * data of `customerId`.
 */
export type Caller = KeyCaller | SessionCaller;

/** A caller that authenticated with an API key. */
export interface KeyCaller {
  kind: 'key';
  keyId: string;
  customerId: string;
  /** The user who created the key. */
  userId: string;
  scopes: readonly Scope[];
}

/** A caller that authenticated with a session token: a logged-in user. */
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
    /** The authenticated caller. Set on every route that is not public. */
    caller: Caller;
    /**
     * The caller's IP address, validated and normalised. It is the address of the connection, or the one that a trusted
     * proxy (`TRUST_PROXY`) forwarded. Use it instead of Fastify's `request.ip`, which does not know our proxies. To
     * count requests, use the /64 prefix of an IPv6 address, because one caller has a whole /64 of addresses.
     */
    address: string;
  }
}
