import type { Sql, Transaction } from '../database/db.ts';
import { companySource, contactSource, type Source } from '../filters/columns.ts';
import { type Folded, type RecordFields } from '../filters/fields.ts';
import { withTerms } from '../filters/search-columns.ts';
import { constant } from '../filters/sql.ts';
import { arrayLiteral } from '../filters/terms.ts';

/**
 * The kinds of records that have search terms. Search terms are numbers in the indexed column `terms`, with which a
 * filter finds records fast.
 */
export const indexedSources: readonly Source[] = [contactSource, companySource];

/** A record whose search terms are missing or out of date, with the columns from which they are computed. */
interface Unindexed {
  id: string;
  folded: Folded;
  record: RecordFields;
}

/**
 * Computes the search terms of the next records whose terms are missing or out of date, because an older version of
 * this program wrote them. Locks the records until the transaction ends. Idempotent.
 * @param after id of the last record of the previous batch
 * @returns the id of the last record of this batch, or undefined if no such records are left
 */
export async function addTerms(
  sql: Transaction,
  customerId: string,
  source: Source,
  { after, size }: { after: string; size: number },
): Promise<string | undefined> {
  const table = constant(sql, source.table);
  const records = await sql<Unindexed[]>`
    select t.id, t.folded, to_jsonb(t) - '{folded,terms}'::text[] as record
    from ${table} t
    where t.customer_id = ${customerId}
      and t.id > ${after}
      and (t.folded ->> 'indexed') is null
    order by t.id
    limit ${size}
    for no key update`;
  if (records.length === 0) return undefined;
  const columns = records.map(({ folded, record }) => withTerms(source, customerId, folded, record));
  const ids = records.map(({ id }) => id);
  await sql`
    update ${table} t
    set
      folded = given.folded::jsonb,
      terms = given.terms::integer[]
    from unnest(
      ${ids}::uuid[],
      ${columns.map(({ folded }) => JSON.stringify(folded))}::text[],
      ${columns.map(({ terms }) => arrayLiteral(terms))}::text[]
    ) as given (id, folded, terms)
    where t.customer_id = ${customerId}
      and t.id = any(${ids}::uuid[])
      and t.id = given.id`;
  return ids.at(-1);
}

/** Returns a page of the ids of customers with records whose search terms are missing or out of date, ordered by id. */
export async function findCustomersWithoutTerms(
  sql: Sql,
  source: Source,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await sql<{ customer_id: string }[]>`
    with recursive found as (
      (
        select customer_id
        from ${constant(sql, source.table)}
        where customer_id > ${after}
          and (folded ->> 'indexed') is null
        order by customer_id
        limit 1
      )
      union all
      select next.customer_id
      from found
      cross join lateral (
        select t.customer_id
        from ${constant(sql, source.table)} t
        where t.customer_id > found.customer_id
          and (t.folded ->> 'indexed') is null
        order by t.customer_id
        limit 1
      ) next
    )
    select customer_id
    from found
    limit ${limit}`;
  return rows.map(({ customer_id }) => customer_id);
}
