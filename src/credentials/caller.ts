import type { ApproveOver, ApprovedCall } from '../schemas/base/approvals.ts';
import type { Scope } from '../schemas/base/scopes.ts';
import type { EventActor } from '../schemas/events/types.ts';
import type { Role } from '../schemas/users.ts';
import type { TokenHash } from './tokens.ts';

/**
 * The authenticated sender of a request: an API key or a logged-in user. A caller may access only the data of the
 * customer with the id `customerId`.
 */
export type Caller = KeyCaller | SessionCaller;

export interface KeyCaller {
  kind: 'key';
  keyId: string;
  customerId: string;
  /** The user who created the key. */
  userId: string;
  scopes: readonly Scope[];
  /** What one call may do without the approval of an admin. */
  approveOver: Partial<ApproveOver>;
  /** The approval with which the service sends the call again. */
  approved?: ApprovedCall | undefined;
}

export interface SessionCaller {
  kind: 'session';
  userId: string;
  customerId: string;
  email: string;
  role: Role;
  tokenHash: TokenHash;
}

/** Returns whom the journal names as the author of the caller's changes. */
export const authorOf = (caller: Caller): EventActor =>
  caller.kind === 'key' ? { type: 'key', id: caller.keyId } : { type: 'user', id: caller.userId, name: caller.email };

/** Who pays for a job: a customer, through one of its keys. */
export interface Spender {
  customerId: string;
  /** Null if no key starts the job. */
  apiKeyId: string | null;
  /** The most credits that the job may reserve. Undefined: any number. */
  maxCredits?: number | undefined;
}

/** @param maxCredits the most credits that the job may reserve; undefined: any number */
export const spenderOf = (caller: Caller, maxCredits?: number): Spender => ({
  customerId: caller.customerId,
  apiKeyId: caller.kind === 'key' ? caller.keyId : null,
  maxCredits,
});

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated sender of the request. Undefined on routes without authentication. */
    caller: Caller;
    /**
     * The validated and normalised IP address of the caller. If the request comes from a trusted proxy (`TRUST_PROXY`),
     * this is the address that the proxy has forwarded. Do not use Fastify's `request.ip`, which ignores `TRUST_PROXY`.
     */
    address: string;
  }
}
