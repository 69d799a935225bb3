import type { FastifyRequest } from 'fastify';
import { listLists } from '../../queries/crm/lists.ts';
import type { List } from '../../schemas/lists.ts';

/** Returns the newest lists, for a control that chooses one. */
export const listChoices = async ({ db, caller }: FastifyRequest): Promise<List[]> =>
  (await listLists(db, caller.customerId, { limit: 100 })).rows;
