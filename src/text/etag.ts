import { hash } from 'node:crypto';
import { preconditionFailed, validationFailed } from '../errors.ts';

/**
 * Returns the strong entity tag of a record (RFC 9110 §8.8.3). It changes with any field.
 * @param record as it is sent in the response
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
 * Checks the request header `If-Match` (RFC 9110 §13.1.1). Missing, `*` and the record's tag pass.
 * @param record the current one, as it is sent in a response
 * @throws DomainError `precondition_failed`
 */
export function requireMatch(ifMatch: string | undefined, record: object): void {
  const tags = ifMatch === undefined ? '*' : readIfMatch(ifMatch);
  if (tags === '*') return;
  // Weak tags (`W/…`) never match, as the RFC requires.
  if (!tags.includes(etagOf(record))) throw preconditionFailed();
}
