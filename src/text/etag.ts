import { hash } from 'node:crypto';
import { preconditionFailed } from '../errors.ts';

/**
 * Returns the strong entity tag (`ETag`) of a record (RFC 9110 §8.8.3). The tag changes when any field of the record
 * changes.
 * @param record The record as it is sent in the response.
 */
export const etagOf = (record: object): string =>
  `"${hash('sha256', JSON.stringify(record), 'base64url').slice(0, 27)}"`;

/**
 * Checks the request header `If-Match` (RFC 9110 §13.1.1). The check succeeds if the header is missing, if it is `*`,
 * or if it contains the entity tag of the record.
 * @param record The current record as it is sent in a response.
 * @throws DomainError `precondition_failed` if the check fails.
 */
export function requireMatch(ifMatch: string | undefined, record: object): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  // Weak tags (`W/…`) never match, as the RFC requires.
  if (!tags.includes(etagOf(record))) throw preconditionFailed();
}
