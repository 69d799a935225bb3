import type { Sql, Transaction } from '../../database/db.ts';
import { withoutTerms } from '../../filters/paging/candidates.ts';
import { companySource, contactSource, type Source } from '../../filters/columns.ts';
import { foldedColumns, type RecordFields } from '../../filters/fields.ts';
import { searchColumnsOf } from '../../filters/search-columns.ts';
import { constant } from '../../filters/sql.ts';
import { termColumns } from '../../filters/terms.ts';

/**
 * The kinds of records that have search columns: folded texts (lower case, no accents), and search terms, which are
 * numbers with which a filter finds records fast.
 */
export const indexedSources: readonly Source[] = [contactSource, companySource];

/**
 * Computes the search columns of the next records whose search columns are missing or out of date, because an older
 * version of this program wrote them. Locks the records until the transaction ends. Idempotent.
 * @param after id of the last record of the previous batch
 * @returns the id of the last record of this batch, or undefined if no such records are left
 */
export async function addTerms(
  sql: Transaction,
  customerId: string,
  source: Source,
  { after, size }: { after: string; size: number },
): Promise<string | undefined> {
  const [table, alias] = [constant(sql, source.table), constant(sql, source.alias)];
  const records = await sql<{ id: string; record: RecordFields }[]>`
    select ${alias}.id, jsonb_build_object(${constant(sql, recordPairs(source))}) as record
    from ${table} ${alias}
    where ${alias}.customer_id = ${customerId}
      and ${alias}.id > ${after}
      and ${constant(sql, withoutTerms(source))}
    order by ${alias}.id
    limit ${size}
    for no key update`;
  if (records.length === 0) return undefined;
  const rows = records.map(({ id, record }) => ({ id, ...searchColumnsOf(source, customerId, record) }));
  const ids = rows.map(({ id }) => id);
  await sql`
    update ${table} ${alias}
    set
      folded = given.folded,
      terms = given.terms
    from jsonb_to_recordset(${sql.json(rows)}) as given (id uuid, folded jsonb, terms integer[])
    where ${alias}.customer_id = ${customerId}
      and ${alias}.id = any(${ids}::uuid[])
      and ${alias}.id = given.id`;
  return ids.at(-1);
}

const recordPairs = (source: Source): string =>
  [...new Set([...foldedColumns(source), ...termColumns(source)])]
    .map((column) => `'${column}', ${source.alias}.${column}`)
    .join(', ');

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
 * Returns the id of the first customer after `after` that has a record with missing or out-of-date search columns. Reads
 * one entry of an index.
 */
async function findCustomerWithoutTerms(sql: Sql, source: Source, after: string): Promise<string | undefined> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from ${constant(sql, `${source.table} ${source.alias}`)}
    where customer_id > ${after}
      and ${constant(sql, withoutTerms(source))}
    order by customer_id
    limit 1`;
  return row?.customer_id;
}
