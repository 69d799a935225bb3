import type { Queryable, Transaction } from '../../database/db.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';

/**
 * SQL: the newest result of verifying a folded address that can be reused; null if there is none. Rows of
 * `job_results` have a `verified_address` only if they can be.
 * @param since SQL: the time after which it must have been made
 */
export const earlierVerification = (
  sql: FragmentMaker,
  customerId: string,
  address: Fragment,
  since: Fragment,
): Fragment => sql`
  (
    select r.result
    from job_results r
    where r.customer_id = ${customerId}::uuid
      and r.verified_address = ${address}
      and r.finished_at > ${since}
    order by r.finished_at desc
    limit 1
  )`;

/**
 * SQL: the time after which a verification must have been made for this job to reuse it. It depends on the start of the
 * job, so that what was free then stays free.
 */
export const sinceOfJob = (sql: FragmentMaker, jobId: string, hours: number): Fragment =>
  sql`uuid_extract_timestamp(${jobId}::uuid) - ${hours}::float8 * interval '1 hour'`;

export const sinceNow = (sql: FragmentMaker, hours: number): Fragment =>
  sql`now() - ${hours}::float8 * interval '1 hour'`;

export async function countReusable(sql: Queryable, customerId: string, jobId: string, hours: number): Promise<number> {
  if (hours === 0) return 0;
  const [row] = await sql<[{ reusable: number }]>`
    select count(*) as reusable
    from job_inputs i
    where i.customer_id = ${customerId}
      and i.job_id = ${jobId}
      and not i.is_duplicate
      and ${earlierVerification(sql, customerId, sql`i.address`, sinceOfJob(sql, jobId, hours))} is not null`;
  return row.reusable;
}

/**
 * Returns those of these folded addresses that have a verification that can be reused.
 * @param since SQL: as in `earlierVerification`
 */
export async function findReusable(
  sql: Queryable,
  customerId: string,
  addresses: readonly string[],
  since: Fragment,
): Promise<Set<string>> {
  const rows = await sql<{ address: string }[]>`
    select g.address
    from unnest(${addresses as string[]}::text[]) as g (address)
    where ${earlierVerification(sql, customerId, sql`g.address`, since)} is not null`;
  return new Set(rows.map(({ address }) => address));
}

/**
 * Locks the customer's verifications until the transaction ends, and returns those of these folded addresses that were
 * verified while the job verified them too. So of two jobs with the same address only one is charged, whichever settles
 * first. Call this just before the results are saved.
 */
export async function lockVerified(
  sql: Transaction,
  customerId: string,
  addresses: readonly string[],
  since: Fragment,
): Promise<Set<string>> {
  // Alone: the next statement must see what the transaction before has written.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`verifications:${customerId}`}, 0))`;
  return findReusable(sql, customerId, addresses, since);
}
