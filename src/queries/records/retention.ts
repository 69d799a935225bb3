import type { Transaction } from '../../database/db.ts';
import type { Fragment } from '../../filters/sql.ts';
import { constant } from '../../filters/sql.ts';

/** The tables of which a run has many rows, in the order of `position`, and the column with the id of the run. */
const runOf = { job_inputs: 'job_id', job_results: 'job_id', import_errors: 'import_id' } as const;

/**
 * Deletes the next rows of one run, at most `size`.
 * @returns how many
 */
export async function removeRows(
  sql: Transaction,
  customerId: string,
  table: keyof typeof runOf,
  runId: string,
  size: number,
): Promise<number> {
  const rows: Fragment = sql`
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and ${constant(sql, runOf[table])} = ${runId}`;
  const { count } = await sql`
    delete ${rows}
      and position <= coalesce((select position ${rows} order by position offset ${size - 1} limit 1), 9223372036854775807)`;
  return count;
}
