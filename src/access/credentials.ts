import { hash, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';
import type { ApproveOver, ApprovedCall, Role } from '../schemas/accounts.ts';
import type { Scope } from '../schemas/scopes.ts';
import type { EventActor } from '../schemas/events.ts';
import { DomainError } from '../errors.ts';

declare const hashed: unique symbol;

// A fast hash is safe here, because a token has 256 random bits.
/** The SHA-256 hash of an API key or session token. Only this hash is stored in the database. */
export type TokenHash = Buffer & { readonly [hashed]: true };

/**
 * An API key or session token in clear text. If the object is printed, logged or serialised, the output is
 * `[redacted]`. The method `reveal` returns the text.
 */
export class RawToken {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the token in clear text. May be called only for the response that shows a new token to its owner. */
  reveal(): string {
    return this.#text;
  }

  hash(): TokenHash {
    // Converted via a string, because that allocates from Node's shared buffer pool; a separate buffer per request is
    // several times slower.
    return Buffer.from(hash('sha256', this.#text, 'binary'), 'latin1') as TokenHash;
  }

  /**
   * The prefix of the token and the next four characters. This part is not secret, and helps users to identify their
   * tokens.
   */
  get start(): string {
    return this.#text.slice(0, this.#text.indexOf('_') + 1 + 4);
  }

  toString(): string {
    return '[redacted]';
  }

  toJSON(): string {
    return '[redacted]';
  }

  [inspect.custom](): string {
    return '[redacted]';
  }
}

export const sessionPrefix = 'sdsession';

/** The prefix of the tokens in links with which users set their password. */
export const linkPrefix = 'sdlink';

/**
 * Creates a random token with 256 random bits, in the form `<prefix>_<43 base62 characters>_<checksum>`. The checksum
 * is the CRC-32 of the preceding text, as 6 base62 characters.
 */
export function mintToken(prefix: string): RawToken {
  const body = `${prefix}_${base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43)}`;
  return new RawToken(`${body}_${checksum(body)}`);
}

/**
 * Parses an API key or session token. Returns undefined if the format or the checksum is wrong. Accepts any prefix, so
 * that old API keys stay valid when `KEY_PREFIX` changes.
 */
export function recogniseToken(text: string): RawToken | undefined {
  if (!shape.test(text)) return undefined;
  const end = text.lastIndexOf('_');
  return checksum(text.slice(0, end)) === text.slice(end + 1) ? new RawToken(text) : undefined;
}

const shape = /^[a-z][a-z0-9]{1,15}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/;

const checksum = (text: string): string => base62(BigInt(crc32(text)), 6);

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

function base62(value: bigint, length: number): string {
  let text = '';
  for (let remaining = value; remaining > 0n; remaining /= 62n) text = digits[Number(remaining % 62n)]! + text;
  return text.padStart(length, '0');
}

/**
 * The hash of a user who has not set a password yet. Logins of unknown addresses are compared with it, so that they take as
 * long. No password matches it.
 */
export const noPassword =
  '$argon2id$v=19$m=19456,t=2,p=1$DCK8l8LEJDhMKBjKCcIJCQ$+u6E7aaSoOyZjPaYNlnHmDZ5AhwDjTtk6RnzsWu0ljs';

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

/**
 * The customer for whom an operation runs, and how long the operation may take. Limited resources, such as database
 * connections, are shared fairly between customers.
 */
export interface Requester {
  /** The id of the customer for whom the operation runs, `serviceItself` or `allCustomers`. */
  customerId: string;
  /**
   * Aborts when the result of the operation is no longer needed, because the time is up or the caller has closed the
   * connection. The abort reason is a DomainError.
   */
  signal?: AbortSignal;
  /** Aborts only when the time is up. Used for writes, which continue if the caller closes the connection. */
  timeUp?: AbortSignal;
  /**
   * The total time that the operation may still wait for limited resources (ms). Each wait reduces this time. If
   * undefined, only the limits of the resources apply.
   */
  patienceMs?: number;
  /**
   * Maximum time of each single wait for a limited resource (ms). Replaces the limit of the resource. Set for long
   * requests, such as exports.
   */
  waitMs?: number;
  /** Who acts, as the journal tells it. Default: the command line for a command, else the service itself. */
  actor?: EventActor;
  /** What the journal calls all changes of the operation. Default: another for each transaction. */
  changeId?: string;
  /** The id of the request. Jobs and imports that it creates store it. */
  requestId?: string;
}

/** The customer id for work of the service itself, such as logins, maintenance and commands. */
export const serviceItself = 'service';

/**
 * Used instead of a customer id for work that reads rows of many customers, such as the search for waiting jobs.
 */
export const allCustomers = 'all customers';

/** Thrown when an operation ends early because the caller has closed the connection. */
export class CallerHungUp extends DomainError {
  constructor() {
    super('unavailable', 'The caller has hung up');
  }
}

/**
 * Returns the result of `work`. If the signal aborts first, rejects with the abort reason, but does not stop `work`.
 */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    const settle =
      <A>(how: (outcome: A) => void) =>
      (outcome: A) => {
        signal.removeEventListener('abort', abort);
        how(outcome);
      };
    work.then(settle(resolve), settle(reject));
  });
}
