import type { Transaction } from '../db.ts';

/** How long what a job was given and what became of it are kept after its end. */
const retention = '30 days';

/**
 * Whether what a job was given, and what became of it, are still complete. The job is locked, so it stays so until the
 * transaction ends. While they are being removed, an item whose result is gone looks like one that was never done.
 */
export async function isRetained(sql: Transaction, customerId: string, jobId: string): Promise<boolean> {
  const [job] = await sql<{ is_retained: boolean }[]>`
    select finished_at > (select clock_timestamp()) - ${retention}::interval and purged_at is null as is_retained
    from jobs
    where customer_id = ${customerId}
      and id = ${jobId}`;
  return job!.is_retained;
}

/** Rows of each kind that one transaction removes. */
const batchSize = 5_000;

/**
 * Removes the inputs and results of one job that ended long ago, or some of them; the job itself stays, and so does the ledger.
 * @returns whether it did: there may be more then. A job that somebody else has locked is left for another time.
 */
export async function purgeEndedJob(sql: Transaction): Promise<boolean> {
  const [job] = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from jobs
    where finished_at <= (select clock_timestamp()) - ${retention}::interval
      and purged_at is null
    order by finished_at
    limit 1`;
  if (!job || !(await lockEndedJob(sql, job.customer_id, job.id))) return false;
  const removed = [await removeSome(sql, job.customer_id, job.id, 'job_inputs')];
  removed.push(await removeSome(sql, job.customer_id, job.id, 'job_results'));
  if (removed.some((count) => count === batchSize)) return true;
  await sql`
    update jobs
    set purged_at = (select clock_timestamp())
    where customer_id = ${job.customer_id}
      and id = ${job.id}`;
  return true;
}

/** Locks a job that is not purged. Returns false when it is, or somebody else has locked it. */
async function lockEndedJob(sql: Transaction, customerId: string, id: string): Promise<boolean> {
  const { count } = await sql`
    select
    from jobs
    where customer_id = ${customerId}
      and id = ${id}
      and purged_at is null
    for no key update skip locked`;
  return count === 1;
}

async function removeSome(
  sql: Transaction,
  customerId: string,
  jobId: string,
  table: 'job_inputs' | 'job_results',
): Promise<number> {
  const { count } = await sql`
    delete from ${sql(table)}
    where customer_id = ${customerId}
      and job_id = ${jobId}
      and position <= coalesce(
        (
          select position
          from ${sql(table)}
          where customer_id = ${customerId}
            and job_id = ${jobId}
          order by position
          offset ${batchSize - 1}
          limit 1
        ),
        2147483647
      )`;
  return count;
}
