import { hash } from 'node:crypto';
import { preconditionFailed } from './errors.ts';

/** The strong entity tag of a record as it is answered (RFC 9110 §8.8.3): it changes with anything that the answer shows. */
export const etagOf = (record: object): string =>
  `"${hash('sha256', JSON.stringify(record), 'base64url').slice(0, 27)}"`;

/**
 * Holds a record that exists against `If-Match` (RFC 9110 §13.1.1): `*`, or a list of tags of which one must be the record's.
 * Weak tags never match.
 * @throws precondition_failed
 */
export function requireMatch(ifMatch: string | undefined, record: object): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  if (!tags.includes(etagOf(record))) throw preconditionFailed();
}
