import { hash, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';
import type { ApproveOver, ApprovedCall, Role } from '../schemas/accounts.ts';
import type { Scope } from '../schemas/scopes.ts';
import type { EventActor } from '../schemas/events.ts';
import { DomainError } from '../errors.ts';

declare const hashed: unique symbol;

// A fast hash is safe here, because a token has 256 random bits.
/** The SHA-256 hash of an API key or session token. The database stores only this hash. */
export type TokenHash = Buffer & { readonly [hashed]: true };

/**
 * An API key or session token in clear text. Printing, logging and serialising show `[redacted]`. Call `reveal` for the
 * text.
 */
export class RawToken {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the token in clear text. Call it only for the response that shows a new token to its owner. */
  reveal(): string {
    return this.#text;
  }

  hash(): TokenHash {
    // Converted via a string, because that allocates from Node's shared buffer pool; a separate buffer per request is
    // several times slower.
    return Buffer.from(hash('sha256', this.#text, 'binary'), 'latin1') as TokenHash;
  }

  /** Returns the prefix and the next four characters, which are not secret. Users recognise their tokens by them. */
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

export const linkPrefix = 'sdlink';

/**
 * Creates a token with 256 random bits, in the form `<prefix>_<43 base62 characters>_<checksum>`. The checksum is the
 * CRC-32 of the preceding text, as 6 base62 characters.
 */
export function mintToken(prefix: string): RawToken {
  const body = `${prefix}_${base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43)}`;
  return new RawToken(`${body}_${checksum(body)}`);
}

/**
 * Parses an API key or session token. Returns undefined if the format or the checksum is wrong. Accepts any prefix, so
 * that old keys stay valid when `KEY_PREFIX` changes.
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
 * Hash for users without a password, which no password matches. A login with an unknown address is checked against it,
 * so that it takes as long as any other login.
 */
export const noPassword =
  '$argon2id$v=19$m=19456,t=2,p=1$DCK8l8LEJDhMKBjKCcIJCQ$+u6E7aaSoOyZjPaYNlnHmDZ5AhwDjTtk6RnzsWu0ljs';

export type Caller = KeyCaller | SessionCaller;

export interface KeyCaller {
  kind: 'key';
  keyId: string;
  customerId: string;
  userId: string;
  scopes: readonly Scope[];
  approveOver: Partial<ApproveOver>;
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

export const authorOf = (caller: Caller): EventActor =>
  caller.kind === 'key' ? { type: 'key', id: caller.keyId } : { type: 'user', id: caller.userId, name: caller.email };

export interface Spender {
  customerId: string;
  apiKeyId: string | null;
  maxCredits?: number | undefined;
}

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
     * IP address of the caller, in its standard spelling. Behind a trusted proxy (`TRUST_PROXY`), it is the address
     * that the proxy forwards. Use it instead of `request.ip`, which ignores `TRUST_PROXY`.
     */
    address: string;
  }
}

/**
 * The customer for whom an operation runs, and the operation's time limits. Limited resources, such as database
 * connections, are shared fairly between customers.
 */
export interface Requester {
  customerId: string;
  /**
   * Aborts when nobody needs the result any more: the time is up, or the caller has closed the connection. The abort
   * reason is a DomainError.
   */
  signal?: AbortSignal;
  /**
   * Aborts only when the time is up. Writes use it, because they continue after the caller has closed the connection.
   */
  timeUp?: AbortSignal;
  /**
   * Maximum total milliseconds that the operation may wait for limited resources. Undefined: only the limits of the
   * resources apply.
   */
  retryTimeoutMs?: number;
  /**
   * Milliseconds that each wait for a limited resource may take, instead of the resource's own limit. Set for long
   * requests, such as exports.
   */
  waitMs?: number;
  /**
   * Author of the operation's changes in the journal. Default: the command line for a command, otherwise the service.
   */
  actor?: EventActor;
  /** Id that groups all changes of the operation in the journal. Default: a new id for each transaction. */
  changeId?: string;
  committedChange?: string;
  requestId?: string;
}

export const serviceItself = 'service';

/** Used in place of a customer id for work on the rows of many customers, such as the search for waiting jobs. */
export const allCustomers = 'all customers';

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
