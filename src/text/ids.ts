import { hash } from 'node:crypto';
import { preconditionFailed, validationFailed } from '../errors.ts';

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Returns an id in lower case, or undefined if the text is not a UUID. Call it for every id from outside, because ids
 * are compared as texts.
 */
export const canonicalId = (text: string): string | undefined => (uuid.test(text) ? text.toLowerCase() : undefined);

/**
 * Returns the strong entity tag of a record (RFC 9110 §8.8.3). It changes if any field changes.
 * @param record the record as sent in the response
 */
export const etagOf = (record: object): string =>
  `"${hash('sha256', JSON.stringify(record), 'base64url').slice(0, 27)}"`;

/**
 * Returns the entity tags of the request header `If-Match`, or `*`.
 * @throws DomainError `validation_failed` if it is not a list of entity tags
 */
export function readIfMatch(ifMatch: string): '*' | string[] {
  if (ifMatch.trim() === '*') return '*';
  const tags: string[] = [];
  const rest = ifMatch.replaceAll(/(?:W\/)?"[^"]*"/g, (tag) => (tags.push(tag), 'tag'));
  const isList = rest.split(',').every((part) => ['', 'tag'].includes(part.trim()));
  if (isList && tags.length > 0) return tags;
  const message = 'the header If-Match is not a list of entity tags, such as "abc" with its quotes, or *';
  throw validationFailed([{ path: '', message }]);
}

/**
 * Checks the request header `If-Match` (RFC 9110 §13.1.1). Accepts a missing header, `*` and the record's tag.
 * @param record the current record, as sent in a response
 * @throws DomainError `precondition_failed`
 */
export function requireMatch(ifMatch: string | undefined, record: object): void {
  const tags = ifMatch === undefined ? '*' : readIfMatch(ifMatch);
  if (tags === '*') return;
  // Weak tags (`W/…`) never match, as the RFC requires.
  if (!tags.includes(etagOf(record))) throw preconditionFailed();
}

const blockSize = 64;
const digestSize = 32;

/**
 * Computes HMAC-SHA-256 (RFC 2104) of many short texts under one secret. Uses two plain hashes, because `createHmac`
 * takes ten times as long for a short text.
 */
export class KeyedDigests {
  #inner: Buffer;
  readonly #outer: Buffer;

  constructor(secret: Buffer) {
    if (secret.length > blockSize) throw new Error('The secret of a keyed digest is too long');
    const key = Buffer.concat([secret], blockSize);
    this.#inner = Buffer.concat([key.map((byte) => byte ^ 0x36)], 16 * blockSize);
    this.#outer = Buffer.concat([key.map((byte) => byte ^ 0x5c)], blockSize + digestSize);
  }

  /** Returns the digest of a text as 32 characters, each of which is one byte. */
  of(text: string): string {
    const most = blockSize + 3 * text.length; // UTF-8 bytes for one UTF-16 unit
    if (most > this.#inner.length) this.#inner = Buffer.concat([this.#inner.subarray(0, blockSize)], most);
    const end = blockSize + this.#inner.write(text, blockSize);
    this.#outer.write(hash('sha256', this.#inner.subarray(0, end), 'binary'), blockSize, 'binary');
    return hash('sha256', this.#outer, 'binary');
  }
}
