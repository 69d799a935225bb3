import { hash } from 'node:crypto';
import { preconditionFailed } from './errors.ts';

/**
 * Returns the strong entity tag of a record as the API shows it (RFC 9110 §8.8.3). A change of any field changes the
 * tag.
 */
export const etagOf = (record: object): string =>
  `"${hash('sha256', JSON.stringify(record), 'base64url').slice(0, 27)}"`;

/**
 * Checks an existing record against an `If-Match` header (RFC 9110 §13.1.1). The header is `*`, or a list of tags that
 * must contain the record's tag. Weak tags never match.
 * @throws precondition_failed when no tag matches
 */
export function requireMatch(ifMatch: string | undefined, record: object): void {
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  if (!tags.includes(etagOf(record))) throw preconditionFailed();
}
