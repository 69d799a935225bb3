import type { LockedId, Sql, Transaction } from '../../database/db.ts';

/** Notes that a job waits for the name server, unless it does already. */
export async function waitForNameServer(sql: Transaction, customerId: string, jobId: LockedId): Promise<void> {
  await sql`
    update jobs
    set waiting_for = 'name_server', waiting_since = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${jobId}
      and waiting_for is null`;
}

/** Notes that a job waits no longer. */
export async function endWait(sql: Transaction, customerId: string, jobId: LockedId): Promise<void> {
  await sql`
    update jobs
    set waiting_for = null, waiting_since = null
    where customer_id = ${customerId}
      and id = ${jobId}`;
}

/** True if a job has waited for an hour: then it must end without what it waits for. */
export async function hasWaitedTooLong(sql: Sql, customerId: string, jobId: string): Promise<boolean> {
  const { count } = await sql`
    select 1
    from jobs
    where customer_id = ${customerId}
      and id = ${jobId}
      and waiting_since <= now() - interval '1 hour'`;
  return count > 0;
}
