import type { Queryable, Transaction } from '../../database/db.ts';
import type { Verification } from '../../schemas/verification.ts';
import { earlierVerification, sinceOfJob } from '../records/earlier-verifications.ts';

/** A prospect id or an email address. */
export interface JobInput {
  position: number;
  item: string;
  /** Of an email to verify, its folded address. */
  address: string | null;
  /** For an email to verify, the contacts in which the result is saved. */
  contact_ids: string[];
  /** An earlier input has the same item. Such an input is not processed again. */
  is_duplicate: boolean;
}

export async function insertInputs(
  sql: Transaction,
  customerId: string,
  jobId: string,
  inputs: JobInput[],
): Promise<void> {
  await sql`
    insert into job_inputs (customer_id, job_id, position, item, address, contact_ids, is_duplicate)
    select ${customerId}, ${jobId}, i.position, i.item, i.address, i.contact_ids, i.is_duplicate
    from jsonb_to_recordset(${sql.json(inputs as never)})
      as i (position integer, item text, address text, contact_ids uuid[], is_duplicate boolean)`;
}

/**
 * The row `i` of `job_inputs` has no result yet. A subquery, because with `not exists` the planner may read all results
 * of the job for each input.
 */
const isOpen = (sql: Queryable, customerId: string, jobId: string) => sql`
  (
    select r.position
    from job_results r
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and r.position = i.position
  ) is null`;

/** Returns the next inputs without a result, in order. All up to the position `after` must have one. */
export const findNextInputs = (
  sql: Queryable,
  customerId: string,
  jobId: string,
  { after, limit }: { after: number; limit: number },
): Promise<JobInput[]> => sql<JobInput[]>`
  select i.position, i.item, i.address, i.contact_ids, i.is_duplicate
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.position > ${after}
    and ${isOpen(sql, customerId, jobId)}
  order by i.position
  limit ${limit}`;

export interface EmailInput extends JobInput {
  /** The result to reuse; null if the email must be verified. */
  earlier: Verification | null;
}

/**
 * Returns the next emails without a result, in order, except duplicates. All inputs up to the position `after` must have
 * a result.
 * @param reuseHours how many hours before its start the job reuses a result; 0: none
 */
export const findNextEmails = (
  sql: Queryable,
  customerId: string,
  jobId: string,
  { after, limit, reuseHours }: { after: number; limit: number; reuseHours: number },
): Promise<EmailInput[]> => sql<EmailInput[]>`
  select
    i.position, i.item, i.address, i.contact_ids, i.is_duplicate,
    ${reuseHours > 0 ? earlierVerification(sql, customerId, sql`i.address`, sinceOfJob(sql, jobId, reuseHours)) : sql`null`}
      as earlier
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.position > ${after}
    and not i.is_duplicate
    and ${isOpen(sql, customerId, jobId)}
  order by i.position
  limit ${limit}`;

/** Also those that have a result. */
export const findDuplicateInputs = (sql: Queryable, customerId: string, jobId: string): Promise<JobInput[]> => sql<
  JobInput[]
>`
  select i.position, i.item, i.address, i.contact_ids, i.is_duplicate
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.is_duplicate
  order by i.position`;

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
