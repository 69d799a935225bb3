import type { Sql, Transaction } from '../database/db.ts';

/** One input of a job: a prospect id or an email. */
export interface JobInput {
  position: number;
  item: string;
  /** Ids of the contacts to which the outcome is written when the item is an email to verify; otherwise empty. */
  contact_ids: string[];
  /** Whether an earlier input has the same item. Such an input is not processed again. */
  is_duplicate: boolean;
}

/** Inserts the inputs of a job. */
export async function insertInputs(
  sql: Transaction,
  customerId: string,
  jobId: string,
  inputs: JobInput[],
): Promise<void> {
  await sql`
    insert into job_inputs (customer_id, job_id, position, item, contact_ids, is_duplicate)
    select ${customerId}, ${jobId}, i.position, i.item, i.contact_ids, i.is_duplicate
    from jsonb_to_recordset(${sql.json(inputs as never)})
      as i (position integer, item text, contact_ids uuid[], is_duplicate boolean)`;
}

/**
 * SQL condition: the row `i` of `job_inputs` has no result yet. A subquery is used because with `not exists` the
 * planner could read all results of the job for each input.
 */
const isOpen = (sql: Sql | Transaction, customerId: string, jobId: string) => sql`
  (
    select r.position
    from job_results r
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and r.position = i.position
  ) is null`;

/**
 * Returns a job's inputs that have no result yet, in order. Reads only inputs after the position `after`; the caller
 * knows that all earlier inputs have a result.
 */
export const findNextInputs = (
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
  { after, limit }: { after: number; limit: number },
): Promise<JobInput[]> => sql<JobInput[]>`
  select i.position, i.item, i.contact_ids, i.is_duplicate
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.position > ${after}
    and ${isOpen(sql, customerId, jobId)}
  order by i.position
  limit ${limit}`;

/** An email that a job must verify. */
export interface EmailInput extends JobInput {
  /** The part of the email after the last `@`, in lower case. */
  domain: string;
}

/**
 * Returns a job's emails that have no result yet, in order. Leaves out duplicates and the emails of the domains in
 * `without`. Reads only inputs after the position `after`; the caller knows that all earlier inputs have a result.
 */
export const findNextEmails = (
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
  { after, without, limit }: { after: number; without: readonly string[]; limit: number },
): Promise<EmailInput[]> => sql<EmailInput[]>`
  select i.position, i.item, i.contact_ids, i.is_duplicate, ${domainOf(sql)} as domain
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.position > ${after}
    and not i.is_duplicate
    and ${domainOf(sql)} <> all(${without as string[]}::text[])
    and ${isOpen(sql, customerId, jobId)}
  order by i.position
  limit ${limit}`;

const domainOf = (sql: Sql | Transaction) => sql`lower(split_part(btrim(i.item), '@', -1))`;

/** Returns the inputs of a job that repeat an earlier input, with or without a result. */
export const findDuplicateInputs = (
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
): Promise<JobInput[]> => sql<JobInput[]>`
  select i.position, i.item, i.contact_ids, i.is_duplicate
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.is_duplicate
  order by i.position`;

/**
 * Returns the position of a job's first input without a result, or undefined if every input has one.
 * @param after a position up to which every input is known to have a result
 */
export async function findFirstOpenInput(
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
  after: number,
): Promise<number | undefined> {
  const [first] = await findNextInputs(sql, customerId, jobId, { after, limit: 1 });
  return first?.position;
}

/**
 * Returns those of the given input positions of a job that already have a result. While the caller has locked the job,
 * no other transaction can add results.
 */
export async function findSettledPositions(
  sql: Sql | Transaction,
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
