import type { FastifyRequest } from 'fastify';
import { findList, listLists } from '../../queries/crm/lists.ts';
import type { List } from '../../schemas/lists.ts';
import { canonicalId } from '../../text/ids.ts';

/**
 * Returns the newest lists, for a control that chooses one.
 * @param chosen id of a list that is always one of them, if it exists
 */
export async function listChoices({ db, caller }: FastifyRequest, chosen = ''): Promise<List[]> {
  const { rows } = await listLists(db, caller.customerId, { limit: 100 });
  const id = canonicalId(chosen);
  if (id === undefined || rows.some((list) => list.id === id)) return rows;
  const found = await findList(db, caller.customerId, id);
  return found ? [...rows, found] : rows;
}
