import { hash, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';

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
