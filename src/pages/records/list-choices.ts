import type { FastifyRequest } from 'fastify';
import { listNames, type ListName } from '../../queries/crm/lists.ts';
import { canonicalId } from '../../text/ids.ts';

/**
 * Returns the newest lists, for a control that chooses one.
 * @param chosen id of a list that is always one of them, if it exists
 */
export const listChoices = ({ db, caller }: FastifyRequest, chosen = ''): Promise<ListName[]> =>
  listNames(db, caller.customerId, 100, canonicalId(chosen));
