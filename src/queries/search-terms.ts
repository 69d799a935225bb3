import type { Sql, Transaction } from '../database/db.ts';
import { companySource, contactSource, type Source } from '../filters/columns.ts';
import { type Folded, type RecordFields } from '../filters/fields.ts';
import { withTerms } from '../filters/search-columns.ts';
import { constant } from '../filters/sql.ts';
import { termColumns } from '../filters/terms.ts';

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
    select t.id, t.folded, jsonb_build_object(${constant(sql, termPairs(source))}) as record
    from ${table} t
    where t.customer_id = ${customerId}
      and t.id > ${after}
      and (t.folded ->> 'indexed') is null
    order by t.id
    limit ${size}
    for no key update`;
  if (records.length === 0) return undefined;
  const rows = records.map(({ id, folded, record }) => ({ id, ...withTerms(source, customerId, folded, record) }));
  const ids = rows.map(({ id }) => id);
  await sql`
    update ${table} t
    set
      folded = given.folded,
      terms = given.terms
    from jsonb_to_recordset(${sql.json(rows)}) as given (id uuid, folded jsonb, terms integer[])
    where t.customer_id = ${customerId}
      and t.id = any(${ids}::uuid[])
      and t.id = given.id`;
  return ids.at(-1);
}

/** Returns the names and values of the columns from which the terms of a record `t` are computed, as SQL. */
const termPairs = (source: Source): string =>
  termColumns(source)
    .map((column) => `'${column}', t.${column}`)
    .join(', ');

/**
 * Finds the customers that have records with missing or outdated search terms. Returns one page of their ids, in
 * ascending order.
 */
export async function findCustomersWithoutTerms(
  sql: Sql,
  source: Source,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const found: string[] = [];
  while (found.length < limit) {
    const next = await findCustomerWithoutTerms(sql, source, found.at(-1) ?? after);
    if (next === undefined) break;
    found.push(next);
  }
  return found;
}

/**
 * Returns the id of the first customer after `after` that has a record with missing or out-of-date search terms. Reads
 * one entry of an index.
 */
async function findCustomerWithoutTerms(sql: Sql, source: Source, after: string): Promise<string | undefined> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from ${constant(sql, source.table)}
    where customer_id > ${after}
      and (folded ->> 'indexed') is null
    order by customer_id
    limit 1`;
  return row?.customer_id;
}
