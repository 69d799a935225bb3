import type { Database, Sql, Transaction } from '../../database/db.ts';
import type { Column } from '../../filters/columns.ts';
import { scopeOf } from '../../filters/cursor.ts';
import { all } from '../../filters/tree.ts';
import type { Removal, RemovalQuery } from '../../schemas/prospects.ts';
import type { RecordPage } from '../records/paging.ts';
import { cursorAfter, limitAndOffset, positionBefore } from '../records/paging.ts';

/**
 * Records that people whom the customer had unlocked were erased.
 * @param erasures when each erasure was asked for, by id; a person can be erased again after the first was lifted
 * @returns the ids of those whose erasure was not recorded yet
 */
export async function insertRemovals(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
  erasures: ReadonlyMap<string, string>,
): Promise<string[]> {
  // Until this transaction ends, no other one takes a later time: who has seen the latest removal has seen all before it.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`removals:${customerId}`}, 0))`;
  const rows = await sql<{ prospect_id: string }[]>`
    insert into removals (customer_id, prospect_id, removed_at)
    select ${customerId}::uuid, id, (select clock_timestamp())
    from unnest(${prospectIds as string[]}::uuid[]) as id
    order by id
    on conflict do nothing
    returning prospect_id`;
  const asked = Array.from(erasures, ([id, asked_at]) => ({ id, asked_at }));
  const again = await sql<{ prospect_id: string }[]>`
    update removals r
    set removed_at = (select clock_timestamp())
    from jsonb_to_recordset(${sql.json(asked)}) as erasure (id uuid, asked_at timestamptz)
    where r.customer_id = ${customerId}
      and r.prospect_id = any(${prospectIds as string[]}::uuid[])
      and r.prospect_id = erasure.id
      and r.removed_at < erasure.asked_at
    returning r.prospect_id`;
  return [...rows, ...again].map(({ prospect_id }) => prospect_id);
}

const removedAt: Column = { type: 'instant', value: 'removed_at', raw: 'removed_at', required: true };

/**
 * The latest first.
 * @throws DomainError `validation_failed` if the cursor was returned for another list
 */
export async function listRemovals(
  db: Database,
  customerId: string,
  { since, paginate = {} }: RemovalQuery,
): Promise<RecordPage<Removal>> {
  const scope = scopeOf(`removals since ${since ?? 'ever'}`, customerId, all([]), []);
  const keyset = { scope, columns: [removedAt] };
  const after = positionBefore(keyset, paginate);
  const rows = await db.search(
    (sql) => sql<Removal[]>`
      select prospect_id as id, removed_at
      from removals
      where customer_id = ${customerId}
        ${since === undefined ? sql`` : sql`and removed_at >= ${since}::text::timestamptz`}
        ${after ? sql`and (removed_at, prospect_id) < (${after.values[0] as string}::text::timestamptz, ${after.id}::uuid)` : sql``}
      order by removed_at desc, prospect_id desc
      ${limitAndOffset(sql, paginate)}`,
  );
  return { rows, nextCursor: cursorAfter(keyset, paginate, rows, (row) => ({ id: row.id, values: [row.removed_at] })) };
}

/** Ids of people whom customers have unlocked, each once, in ascending order. */
export async function listUnlockedIds(sql: Sql, after: string, limit: number): Promise<string[]> {
  const rows = await sql<{ prospect_id: string }[]>`
    select distinct prospect_id
    from unlocks
    where prospect_id > ${after}
    order by prospect_id
    limit ${limit}`;
  return rows.map(({ prospect_id }) => prospect_id);
}
