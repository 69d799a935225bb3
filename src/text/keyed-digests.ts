import { hash } from 'node:crypto';

/** Block size of SHA-256 (bytes). */
const blockSize = 64;
const digestSize = 32;

/**
 * Computes HMAC-SHA-256 (RFC 2104) of many short texts under one secret. Made of two plain hashes, because
 * `createHmac` needs ten times as long for a short text.
 */
export class KeyedDigests {
  /** The inner key, and room for a text. */
  #inner: Buffer;
  /** The outer key, and room for the inner digest. */
  readonly #outer: Buffer;

  /** @param secret at most 64 bytes */
  constructor(secret: Buffer) {
    if (secret.length > blockSize) throw new Error('The secret of a keyed digest is too long');
    const key = Buffer.concat([secret], blockSize);
    this.#inner = Buffer.concat([key.map((byte) => byte ^ 0x36)], 16 * blockSize);
    this.#outer = Buffer.concat([key.map((byte) => byte ^ 0x5c)], blockSize + digestSize);
  }

  /** Returns the digest of the text's UTF-8 bytes as a string of 32 characters, one for each byte. */
  of(text: string): string {
    const most = blockSize + 3 * text.length; // UTF-8 bytes for one UTF-16 unit
    if (most > this.#inner.length) this.#inner = Buffer.concat([this.#inner.subarray(0, blockSize)], most);
    const end = blockSize + this.#inner.write(text, blockSize);
    this.#outer.write(hash('sha256', this.#inner.subarray(0, end), 'binary'), blockSize, 'binary');
    return hash('sha256', this.#outer, 'binary');
  }
}
