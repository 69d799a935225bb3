import type { Sql } from '../../database/db.ts';
import type { EndpointState } from './endpoints.ts';

/** Events of a feed are counted up to here; one more says that there are more. */
const mostCounted = 10_000;

/** Returns the entries of the row `v` of the feed that the endpoint `e` is to get and has not got yet. */
export const waitingEntries = (sql: Sql) => sql`
  select entry.number
  from json_array_elements(v.entries) with ordinality as entry (value, number)
  cross join lateral (select v.last_position - v.size + entry.number as position) at
  where entry.value ->> 0 = any(e.types)
    and (at.position is null or at.position > e.position)
    and (e.bulk or v.source not in ('import', 'job') or entry.value ->> 0 like '%.ended')
    and (e.inactive_from is null or at.position <= e.inactive_from)
    and not exists (
      select 1
      from jsonb_array_elements(e.gaps) as gap
      where at.position > (gap ->> 0)::bigint
        and at.position <= (gap ->> 1)::bigint
    )`;

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
      from events v
      join webhook_endpoints e on e.customer_id = v.customer_id
      cross join lateral (${waitingEntries(sql)}) waiting
      where v.customer_id = ${customerId}
        and (v.last_position is null or v.last_position > ${position})
        and v.types && ${types as string[]}::text[]
        and e.customer_id = ${customerId}
        and e.id = ${id}
      limit ${mostCounted + 1}
    ) few`;
  return row.waiting;
}
