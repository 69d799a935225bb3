import type { Sql, Transaction } from '../../database/db.ts';
import type { Prospect } from '../../schemas/prospects.ts';

/**
 * Removes the data of people from the results of the customer's jobs, and from where jobs have stopped in the catalog:
 * such a job starts its search again, and skips who is unlocked. Status and charge stay.
 * @returns the number of results
 */
export async function clearUnlockResults(
  sql: Transaction,
  customerId: string,
  prospectIds: readonly string[],
): Promise<number> {
  const ids = prospectIds as string[];
  const { count } = await sql`
    update job_results
    set result = null
    where customer_id = ${customerId}
      and item = any(${ids}::text[])
      and result is not null`;
  await sql`
    update jobs
    set progress = progress - 'after'
    where customer_id = ${customerId}
      and progress -> 'after' ->> 'id' = any(${ids}::text[])`;
  return count;
}

/** Returns unlocked people in results of all customers whose data contains one of the texts, without regard to case. */
export async function findUnlockResults(sql: Sql, texts: readonly string[]): Promise<Prospect[]> {
  const asWritten = texts.map((text) => JSON.stringify(text).slice(1, -1)); // an address can have a quotation mark
  const rows = await sql<{ person: Prospect }[]>`
    select distinct result as person
    from job_results
    where result ? '_id'
      and exists (
        select 1
        from unnest(${asWritten}::text[]) as written
        where position(lower(written) in lower(result::text)) > 0
      )`;
  return rows.map(({ person }) => person);
}
