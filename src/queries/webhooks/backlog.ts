import type { Sql } from '../../database/db.ts';
import { isWaiting } from '../jobs/endpoint-rows.ts';
import type { EndpointState } from './endpoints.ts';

/** Events of a feed are counted up to here; one more says that there are more. */
const mostCounted = 10_000;

/** Counts the events of a customer's feed that an endpoint is to get and has not got yet, up to 10,001. */
export async function countWaiting(
  sql: Sql,
  customerId: string,
  { id, position, types }: EndpointState,
): Promise<number> {
  const [row] = await sql<[{ waiting: number }]>`
    select count(*) as waiting
    from (
      select 1
      from journal j
      join webhook_endpoints e on e.customer_id = j.customer_id
      where j.customer_id = ${customerId}
        and j.position > ${position}
        and j.type = any(${types as string[]}::text[])
        and e.customer_id = ${customerId}
        and e.id = ${id}
        and ${isWaiting(sql)}
      limit ${mostCounted + 1}
    ) few`;
  return row.waiting;
}
