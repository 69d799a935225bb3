import type { Scope } from './schemas/scopes.ts';
import type { Role } from './schemas/users.ts';
import type { TokenHash } from './tokens.ts';

/** Who a request comes from, resolved before its body is read. `customerId` is the only one whose data it may touch. */
export type Caller = KeyCaller | SessionCaller;

/** The holder of an API key. */
export interface KeyCaller {
  kind: 'key';
  keyId: string;
  customerId: string;
  /** The user who generated the key. */
  userId: string;
  scopes: readonly Scope[];
}

/** A user who is logged in. */
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
    /** Who asks. Set on every route but the public ones. */
    caller: Caller;
    /**
     * The caller's IP address, validated and normalised (src/addresses.ts): the peer's, or behind the proxies of `TRUST_PROXY`
     * the one that they forwarded. Use this and not Fastify's `request.ip`, which knows no proxies here. An IPv6 caller
     * has a whole /64 of addresses: count by that prefix, not by address.
     */
    address: string;
  }
}
