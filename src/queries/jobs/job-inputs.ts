import type { Sql, Transaction } from '../../database/db.ts';

/** One input of a job: a prospect id or an email address. */
export interface JobInput {
  position: number;
  item: string;
  /** If the input is an email to verify, the ids of the contacts in which the result is saved. Otherwise empty. */
  contact_ids: string[];
  /** True if an earlier input has the same item. Such an input is not processed again. */
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

// A subquery, because with `not exists` the planner may read all results of the job for each input.
/** SQL condition: the row `i` of `job_inputs` has no result yet. */
const isOpen = (sql: Sql | Transaction, customerId: string, jobId: string) => sql`
  (
    select r.position
    from job_results r
    where r.customer_id = ${customerId}
      and r.job_id = ${jobId}
      and r.position = i.position
  ) is null`;

/**
 * Returns the next inputs of a job that have no result yet, in order. Reads only inputs after the position `after`; all
 * earlier inputs must have a result.
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
 * Returns the next emails of a job that have no result yet, in order. Leaves out duplicates and emails of the domains
 * in `without`. Reads only inputs after the position `after`; all earlier inputs must have a result.
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

/** Returns those inputs of a job that are duplicates of earlier inputs. Includes inputs that already have a result. */
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
 * Returns the position of the first input of a job that has no result, or undefined if all inputs have a result.
 * @param after a position; all inputs up to this position must have a result
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
 * Returns those of the given input positions of a job that already have a result. If the caller has locked the job, no
 * other transaction can add results.
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
