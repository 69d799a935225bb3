import type { Transaction } from '../db.ts';

/** How long what a job was given and what became of it are kept after its end. */
const retention = '30 days';

/** Rows of each kind that one transaction removes. */
const batchSize = 5_000;

/**
 * Removes the inputs and results of one job that ended long ago, or some of them; the job itself stays, and so does the ledger.
 * @returns whether there was such a job
 */
export async function purgeEndedJob(sql: Transaction): Promise<boolean> {
  const [job] = await sql<{ customer_id: string; id: string }[]>`
    select customer_id, id
    from jobs
    where finished_at <= clock_timestamp() - ${retention}::interval
      and purged_at is null
    order by finished_at
    limit 1
    for no key update skip locked`;
  if (!job) return false;
  const removed = [await removeSome(sql, job.customer_id, job.id, 'job_inputs')];
  removed.push(await removeSome(sql, job.customer_id, job.id, 'job_results'));
  if (removed.some((count) => count === batchSize)) return true;
  await sql`
    update jobs
    set purged_at = clock_timestamp()
    where customer_id = ${job.customer_id}
      and id = ${job.id}`;
  return true;
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
