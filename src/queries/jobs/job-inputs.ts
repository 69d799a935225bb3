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

/** Inserts inputs that are only items, all different, in this order. */
export async function insertItems(
  sql: Transaction,
  customerId: string,
  jobId: string,
  items: readonly string[],
): Promise<void> {
  await sql`
    insert into job_inputs (customer_id, job_id, position, item, contact_ids, is_duplicate)
    select ${customerId}, ${jobId}, given.position, given.item, '{}', false
    from unnest(${items as string[]}::text[]) with ordinality as given (item, position)`;
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
 * Returns the first position without a result.
 * @param after all inputs up to this position must have one
 */
export async function findFirstOpenInput(
  sql: Queryable,
  customerId: string,
  jobId: string,
  after: number,
): Promise<number | undefined> {
  const [first] = await findNextInputs(sql, customerId, jobId, { after, limit: 1 });
  return first?.position;
}

/** Returns the positions that have a result. If the caller has locked the job, no other transaction can add results. */
export async function findSettledPositions(
  sql: Queryable,
  customerId: string,
  jobId: string,
  positions: readonly number[],
): Promise<Set<number>> {
  const rows = await sql<{ position: number }[]>`
    select position
    from job_results
    where customer_id = ${customerId}
      and job_id = ${jobId}
      and position = any(${positions as number[]}::integer[])`;
  return new Set(rows.map((row) => row.position));
}
