import type { Sql, Transaction } from '../../database/db.ts';
import { highestId } from '../../database/wire-types.ts';
import type { DeliveriesQuery, Delivery } from '../../schemas/events/webhooks.ts';
import { isAfter, limitAndOffset, type PageById } from '../records/paging.ts';

/** The tries that ended, newest first. */
export const listDeliveries = (
  sql: Sql,
  customerId: string,
  endpointId: string,
  { filters, paginate }: { filters?: DeliveriesQuery['filters']; paginate?: PageById },
): Promise<(Delivery & { id: string })[]> =>
  sql<(Delivery & { id: string })[]>`
    select id, event_id, type, attempt, ok, status, error, ms, sent_at, next_attempt_at
    from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${endpointId}
      and due_at is null
      and ${isAfter(sql, 'id', paginate)}
      ${filters?.ok === undefined ? sql`` : filters.ok ? sql`and ok` : sql`and not ok`}
    order by id desc
    ${limitAndOffset(sql, paginate)}`;

/** How long deliveries are kept. */
const retention = '30 days';
/** Rows that one transaction deletes. */
const batchSize = 5_000;

/**
 * Deletes a batch of deliveries that are older than 30 days, of one endpoint.
 * @returns false if there was nothing to delete
 */
export async function purgeOldDeliveries(sql: Transaction): Promise<boolean> {
  const [old] = await sql<{ customer_id: string; endpoint_id: string }[]>`
    select customer_id, endpoint_id
    from webhook_deliveries
    where sent_at < (select clock_timestamp()) - ${retention}::interval
    order by sent_at
    limit 1`;
  if (!old) return false;
  const { customer_id: customerId, endpoint_id: endpointId } = old;
  await sql`
    delete from webhook_deliveries
    where customer_id = ${customerId}
      and endpoint_id = ${endpointId}
      and sent_at < (select clock_timestamp()) - ${retention}::interval
      and id <= coalesce(
        (
          select d.id
          from webhook_deliveries d
          where d.customer_id = ${customerId}
            and d.endpoint_id = ${endpointId}
          order by d.id
          offset ${batchSize - 1}
          limit 1
        ),
        ${highestId}
      )`;
  return true;
}
