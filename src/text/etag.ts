import { hash } from 'node:crypto';
import { preconditionFailed } from '../errors.ts';

/**
 * Returns the strong entity tag of a record (RFC 9110 §8.8.3). It changes with any field.
 * @param record as it is sent in the response
 */
export const etagOf = (record: object): string =>
  `"${hash('sha256', JSON.stringify(record), 'base64url').slice(0, 27)}"`;

/**
 * Checks the request header `If-Match` (RFC 9110 §13.1.1). Missing, `*` and the record's tag pass.
 * @param record the current one, as it is sent in a response
 * @throws DomainError `precondition_failed`
 */
export function requireMatch(ifMatch: string | undefined, record: object): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  // Weak tags (`W/…`) never match, as the RFC requires.
  if (!tags.includes(etagOf(record))) throw preconditionFailed();
}
