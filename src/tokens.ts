import { hash, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';

declare const hashed: unique symbol;

/** SHA-256 of a token's whole text: all that is ever stored of it. 256 random bits need no slow hash. */
export type TokenHash = Buffer & { readonly [hashed]: true };

/**
 * An API key or a session token as its holder has it. Printing, logging or serialising one shows `[redacted]`; the one
 * answer that issues it calls `reveal()`.
 */
export class RawToken {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The clear text. Only for the answer that issues it. */
  reveal(): string {
    return this.#text;
  }

  hash(): TokenHash {
    // By way of a text, into memory that buffers share: once a request, one of its own is several times dearer.
    return Buffer.from(hash('sha256', this.#text, 'binary'), 'latin1') as TokenHash;
  }

  /** The prefix and the first four characters: enough for people to tell keys apart, of no use to a thief. */
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

/** Prefix of session tokens; that of API keys is configured. */
export const sessionPrefix = 'sdsession';

/** A new token of 256 random bits: `<prefix>_<43 base62 characters>_<CRC-32 of all before, 6 base62 characters>`. */
export function mintToken(prefix: string): RawToken {
  const body = `${prefix}_${base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43)}`;
  return new RawToken(`${body}_${checksum(body)}`);
}

/**
 * The token that a text is, or undefined when it cannot be one: a mistyped or cut one fails its checksum, and so costs no
 * database look-up. Any prefix of the right shape will do, so that keys issued under an earlier `KEY_PREFIX` stay good.
 */
export function recogniseToken(text: string): RawToken | undefined {
  if (!shape.test(text)) return undefined;
  const end = text.lastIndexOf('_');
  return checksum(text.slice(0, end)) === text.slice(end + 1) ? new RawToken(text) : undefined;
}

const shape = /^[a-z][a-z0-9]{1,15}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/;

const checksum = (text: string): string => base62(BigInt(crc32(text)), 6);

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** A number in base 62, left-padded with `0` to `length` digits. */
function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; rest > 0n; rest /= 62n) text = digits[Number(rest % 62n)]! + text;
  return text.padStart(length, '0');
}
