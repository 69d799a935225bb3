import { hash, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';

declare const hashed: unique symbol;

/**
 * SHA-256 hash of a whole token, the only form that is stored. A token has 256 random bits, so a slow hash is not
 * needed.
 */
export type TokenHash = Buffer & { readonly [hashed]: true };

/**
 * An API key or session token in clear text. Printing, logging or serialising it shows `[redacted]`; only the response
 * that issues the token calls `reveal()`.
 */
export class RawToken {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the clear text. Call it only for the response that issues the token. */
  reveal(): string {
    return this.#text;
  }

  /** Returns the hash under which the token is stored. */
  hash(): TokenHash {
    // Converted via a string, because that allocates from Node's shared buffer pool; a separate buffer per request is
    // several times slower.
    return Buffer.from(hash('sha256', this.#text, 'binary'), 'latin1') as TokenHash;
  }

  /** The prefix and the first four characters: enough to tell keys apart, useless to an attacker. */
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

/** Prefix of session tokens. The prefix of API keys is configured (`KEY_PREFIX`). */
export const sessionPrefix = 'sdsession';

/**
 * Creates a token of 256 random bits: `<prefix>_<43 base62 characters>_<CRC-32 of the text before it, 6 base62
 * characters>`.
 */
export function mintToken(prefix: string): RawToken {
  const body = `${prefix}_${base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43)}`;
  return new RawToken(`${body}_${checksum(body)}`);
}

/**
 * Parses a token. Returns undefined if the text cannot be one: a mistyped or cut token fails its checksum and so costs
 * no database look-up. Accepts any well-formed prefix, so that keys issued under an earlier `KEY_PREFIX` stay valid.
 */
export function recogniseToken(text: string): RawToken | undefined {
  if (!shape.test(text)) return undefined;
  const end = text.lastIndexOf('_');
  return checksum(text.slice(0, end)) === text.slice(end + 1) ? new RawToken(text) : undefined;
}

const shape = /^[a-z][a-z0-9]{1,15}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/;

const checksum = (text: string): string => base62(BigInt(crc32(text)), 6);

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Formats a number in base 62, left-padded with `0` to `length` digits. */
function base62(value: bigint, length: number): string {
  let text = '';
  for (let remaining = value; remaining > 0n; remaining /= 62n) text = digits[Number(remaining % 62n)]! + text;
  return text.padStart(length, '0');
}
