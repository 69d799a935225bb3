import type { Transaction } from '../../database/db.ts';
import { missingReferences, type DomainError } from '../../errors.ts';
import { lockLists } from '../memberships/list-members.ts';
import { lockReferences } from '../records/references.ts';

interface Referring {
  list_ids?: readonly string[];
  assigned_to?: string | null;
}

/**
 * Checks the lists and users that bodies of contacts refer to. None of these lists is deleted until the transaction ends.
 * Call it before the contacts are written, because an unknown id is reported before an external id that
 * another contact has.
 * @returns for each body the error `not_found` with the JSON pointers of its unknown ids, or undefined
 */
export async function findUnknownReferences(
  sql: Transaction,
  customerId: string,
  bodies: readonly Referring[],
): Promise<(DomainError | undefined)[]> {
  const userIds = new Set(bodies.flatMap(({ assigned_to }) => assigned_to ?? []));
  const users = [...userIds].map((id) => ({ noun: 'user' as const, id, path: '/assigned_to' }));
  const [lists, unknownUsers] = await Promise.all([
    lockLists(sql, customerId, [...new Set(bodies.flatMap(({ list_ids = [] }) => list_ids))]),
    lockReferences(sql, customerId, users),
  ]);
  const knownLists = new Set(lists.map(({ id }) => id));
  const unknown = new Map(unknownUsers.map((user) => [user.id, user]));
  return bodies.map(({ list_ids = [], assigned_to }) => {
    const missing = [
      ...list_ids.flatMap((id, i) => (knownLists.has(id) ? [] : [{ noun: 'list', path: `/list_ids/${i}` }])),
      ...(unknown.has(assigned_to ?? '') ? [unknown.get(assigned_to!)!] : []),
    ];
    return missing.length > 0 ? missingReferences(missing) : undefined;
  });
}
