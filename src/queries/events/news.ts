import { allCustomers } from '../../credentials/requester.ts';
import type { Sql, SharedDatabase } from '../../database/db.ts';

/**
 * Returns the customers that have events behind these positions.
 * @param waiting positions by customer
 */
export async function findNews(
  db: Pick<SharedDatabase, 'for'>,
  waiting: ReadonlyMap<string, number>,
): Promise<string[]> {
  const all = db.for({ customerId: allCustomers }, null);
  const rows = await all.lookup((sql) =>
    Promise.all([...waiting].map(([id, position]) => findNext(sql, id, position))),
  );
  return [...waiting.keys()].filter((_, i) => rows[i]!.length > 0);
}

// One statement for each customer: it reads one entry of the index, whatever the planner knows of the customer.
const findNext = (sql: Sql, customerId: string, position: number) => sql`
  select position
  from journal
  where customer_id = ${customerId}
    and position > ${position}
  order by position
  limit 1`;
