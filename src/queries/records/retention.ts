import type { Transaction } from '../../database/db.ts';
import { constant, type Fragment } from '../../filters/sql.ts';

/**
 * Deletes the next rows of one job, at most `size`, in the order of `position`.
 * @returns how many
 */
export async function removeRows(
  sql: Transaction,
  customerId: string,
  table: 'job_inputs' | 'job_results',
  jobId: string,
  size: number,
): Promise<number> {
  const rows: Fragment = sql`
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and job_id = ${jobId}`;
  const { count } = await sql`
    delete ${rows}
      and position <= coalesce((select position ${rows} order by position offset ${size - 1} limit 1), 9223372036854775807)`;
  return count;
}
