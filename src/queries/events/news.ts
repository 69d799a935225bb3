import { allCustomers } from '../../credentials/requester.ts';
import type { Sql, SharedDatabase } from '../../database/db.ts';

/**
 * Returns the customers that may have events behind these positions, or events that wait for a position.
 * @param waiting positions by customer
 */
export const findNews = (db: Pick<SharedDatabase, 'for'>, waiting: ReadonlyMap<string, number>): Promise<string[]> =>
  db.for({ customerId: allCustomers }, null).lookup((sql) => findNewsOf(sql, [...waiting.keys()], waiting));

async function findNewsOf(sql: Sql, ids: string[], waiting: ReadonlyMap<string, number>): Promise<string[]> {
  const heads = await sql<{ customer_id: string; position: number; settled: number }[]>`
    select customer_id, position, settled
    from event_heads
    where customer_id = any(${ids}::uuid[])`;
  const placed = heads.filter(({ customer_id, position }) => position > waiting.get(customer_id)!);
  const settled = heads.length < ids.length ? 0 : Math.min(...heads.map((head) => head.settled));
  const unplaced = await sql<{ customer_id: string }[]>`
    select distinct customer_id
    from events
    where customer_id = any(${ids}::uuid[])
      and last_position is null
      and number > ${settled}`;
  return [...new Set([...placed, ...unplaced].map(({ customer_id }) => customer_id))];
}
