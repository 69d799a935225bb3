import type { Queryable, Transaction } from '../../database/db.ts';
import type { EventNoun } from '../../schemas/events/types.ts';

/** Removes the values of records from the journal. What readers of the feed get stays. */
export async function clearValues(sql: Transaction, customerId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update journal
    set before = null, after = null
    where customer_id = ${customerId}
      and record_id = any(${ids as string[]}::uuid[])
      and (before is not null or after is not null)`;
}

/** Returns those of the ids of which the journal keeps a deletion, with or without values. */
export async function findDeletedIds(
  sql: Queryable,
  customerId: string,
  noun: EventNoun,
  ids: readonly string[],
): Promise<Set<string>> {
  const rows = await sql<{ record_id: string }[]>`
    select distinct record_id
    from journal
    where customer_id = ${customerId}
      and record_id = any(${ids as string[]}::uuid[])
      and type = ${`${noun}.deleted`}`;
  return new Set(rows.map(({ record_id }) => record_id));
}

/**
 * Returns the ids of the records of which these deletions are the last, and whose values they keep. Nobody can remove the
 * values until the transaction ends.
 * @param positions of the deletions
 */
export async function lockDeletedValues(
  sql: Transaction,
  customerId: string,
  positions: readonly number[],
): Promise<Set<string>> {
  if (positions.length === 0) return new Set();
  const rows = await sql<{ record_id: string }[]>`
    select j.record_id
    from journal j
    where j.customer_id = ${customerId}
      and j.position = any(${positions as number[]}::bigint[])
      and j.before is not null
      and j.position = (
        select max(later.position)
        from journal later
        where later.customer_id = ${customerId}
          and later.record_id = j.record_id
          and later.type like '%.deleted'
      )
    for share of j`;
  return new Set(rows.map(({ record_id }) => record_id));
}
