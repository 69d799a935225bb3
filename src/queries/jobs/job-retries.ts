import type { Transaction } from '../../database/db.ts';

/**
 * Copies inputs without a result, or with the result `cancelled`, in the same order.
 * @returns how many (`total`), and their items without duplicates
 */
export async function copyOpenInputs(
  sql: Transaction,
  customerId: string,
  { from, to }: { from: string; to: string },
): Promise<{ total: number; items: string[] }> {
  const rows = await sql<{ item: string; is_duplicate: boolean }[]>`
    insert into job_inputs (customer_id, job_id, position, item, address, contact_ids, is_duplicate)
    select i.customer_id, ${to}, row_number() over (order by i.position), i.item, i.address, i.contact_ids, i.is_duplicate
    from job_inputs i
    left join job_results r on r.customer_id = i.customer_id and r.job_id = i.job_id and r.position = i.position
    where i.customer_id = ${customerId}
      and i.job_id = ${from}
      and (r.position is null or r.reason = 'cancelled')
    returning item, is_duplicate`;
  return { total: rows.length, items: rows.filter((row) => !row.is_duplicate).map(({ item }) => item) };
}

export async function findRetry(sql: Transaction, customerId: string, id: string): Promise<string | undefined> {
  const [retry] = await sql<{ id: string }[]>`
    select id
    from jobs
    where customer_id = ${customerId}
      and request ->> 'retry_of' = ${id}`;
  return retry?.id;
}
