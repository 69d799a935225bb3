import type { Sql, Transaction } from '../db.ts';

/** One of the things that a job is given. */
export interface JobInput {
  position: number;
  item: string;
  /** Contacts that a verification is for. */
  contact_ids: string[];
  /** The same item stands before: it is not worked at again. */
  is_duplicate: boolean;
}

/** Keeps what a job is given. */
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
 * An input `i` has no result yet. Not written as `not exists`: that becomes a join, and where statistics know nothing of a job
 * the planner would read all its results again for each input. So each input costs one look into the primary key.
 */
const isOpen = (sql: Sql | Transaction) => sql`
  (
    select r.position
    from job_results r
    where r.customer_id = i.customer_id
      and r.job_id = i.job_id
      and r.position = i.position
  ) is null`;

/** Returns the next inputs without a result, in order. `after` only saves work: every input up to it has its result. */
export const nextInputs = (
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
    and ${isOpen(sql)}
  order by i.position
  limit ${limit}`;

/** An e-mail address that a job is given. */
export interface AddressInput extends JobInput {
  /** What follows the last `@`, in lower case. */
  domain: string;
}

/**
 * Returns the next addresses without a result, in order; no duplicates.
 * @param without domains whose addresses are left out
 */
export const nextAddresses = (
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
  { after, without, limit }: { after: number; without: readonly string[]; limit: number },
): Promise<AddressInput[]> => sql<AddressInput[]>`
  select i.position, i.item, i.contact_ids, i.is_duplicate, ${domainOf(sql)} as domain
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.position > ${after}
    and not i.is_duplicate
    and ${domainOf(sql)} <> all(${without as string[]}::text[])
    and ${isOpen(sql)}
  order by i.position
  limit ${limit}`;

const domainOf = (sql: Sql | Transaction) => sql`lower(split_part(btrim(i.item), '@', -1))`;

/** Returns the inputs of a job that repeat an input before, whether or not they have a result. */
export const duplicatesOf = (sql: Sql | Transaction, customerId: string, jobId: string): Promise<JobInput[]> => sql<
  JobInput[]
>`
  select i.position, i.item, i.contact_ids, i.is_duplicate
  from job_inputs i
  where i.customer_id = ${customerId}
    and i.job_id = ${jobId}
    and i.is_duplicate
  order by i.position`;

/** Returns the position of the first input without a result, or undefined when each has its result. `after` as above. */
export async function firstOpenInput(
  sql: Sql | Transaction,
  customerId: string,
  jobId: string,
  after: number,
): Promise<number | undefined> {
  const [first] = await nextInputs(sql, customerId, jobId, { after, limit: 1 });
  return first?.position;
}

/** Returns those of the positions that have a result. Nobody adds one while the job is locked. */
export async function settledAmong(
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
